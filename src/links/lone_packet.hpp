// SPDX-License-Identifier: BSD-3-Clause
// A packet for one message that nothing else waits beside, an answer most likely. Put together in
// one piece where it is used, with no books: a train could do the same, but what it remembers about
// its packets takes longer than such a message does.
//
// The message comes first, then what goes before it is put in front, as far back as it needs. So
// all of it begins with a word in memory, as the checksum reads it: a processor can not hand on
// from store to load what is put together from several stores.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/crc32c.hpp"
#include "wire/long_packet.hpp"
#include "wire/packet.hpp"

namespace via::links {

class LonePacket {
  public:
    /// Longer payloads are referred to.
    static constexpr std::uint32_t most_copied = 255;
    /// What is in front of a message takes no more.
    static constexpr std::uint32_t most_front =
        wire::LongPacketPrefix::bytes + wire::PacketHeader::bytes +
        wire::AcknowledgementFrame::fixed_bytes +
        wire::AcknowledgementFrame::most_ranges * wire::AcknowledgementFrame::range_bytes;

    /// The packet, and what makes it a long one, may have so many bytes.
    explicit LonePacket(std::uint32_t most_bytes) noexcept
        : room_(most_bytes > most_front ? most_bytes - most_front : 0) {}
    /// For the message.
    [[nodiscard]] std::uint32_t room() const noexcept { return room_; }
    /// Place for a frame with or without its payload, to be written by the caller at once.
    [[nodiscard]] std::byte* append(std::uint32_t bytes) noexcept {
        std::byte* const at = bytes_ + end_;
        end_ += bytes;
        return at;
    }
    /// The payload of the frame, where it lies.
    void refer(const std::byte* data, std::uint32_t bytes) noexcept {
        parts_[1] = {const_cast<std::byte*>(data), bytes};
    }

    /// What is before the message.
    class Front {
      public:
        explicit Front(LonePacket& packet) noexcept : packet_(packet) {}
        [[nodiscard]] std::uint32_t room() const noexcept {
            return packet_.begin_ - wire::LongPacketPrefix::bytes - wire::PacketHeader::bytes;
        }
        [[nodiscard]] std::byte* append(std::uint32_t bytes) noexcept {
            return packet_.bytes_ + (packet_.begin_ -= bytes);
        }

      private:
        LonePacket& packet_;
    };

    /// It is complete. `seed`: of its checksum.
    [[nodiscard]] std::span<const iovec> finish(const wire::PacketHeader& header,
                                                std::uint32_t seed,
                                                std::uint32_t datagram_bytes) noexcept {
        begin_ -= wire::PacketHeader::bytes;
        std::byte* const from = bytes_ + begin_;
        wire::encode(from, header);
        const std::byte* const covered = from + wire::PacketHeader::covered_from;
        std::uint32_t checksum =
            wire::crc32c(seed, covered, static_cast<std::size_t>(bytes_ + end_ - covered));
        const auto referred = static_cast<std::uint32_t>(parts_[1].iov_len);
        if (referred != 0) checksum = wire::crc32c(checksum, parts_[1].iov_base, referred);
        wire::store(from + wire::PacketHeader::checksum_at, checksum);
        sent_bytes_ = end_ - begin_ + referred;
        if (sent_bytes_ > datagram_bytes) {
            begin_ -= wire::LongPacketPrefix::bytes;
            wire::encode(bytes_ + begin_, wire::LongPacketPrefix{header.token, sent_bytes_});
            sent_bytes_ += wire::LongPacketPrefix::bytes;
        }
        parts_[0] = {bytes_ + begin_, end_ - begin_};
        return {parts_.data(), referred != 0 ? 2U : 1U};
    }
    [[nodiscard]] std::uint32_t bytes() const noexcept { return sent_bytes_; }

  private:
    /// No further back, or the front could grow beyond what room() has left for it. With the
    /// commonest front, an acknowledgement of one range, the packet begins with a cache line.
    static constexpr std::uint32_t message_at = most_front;
    static constexpr std::uint32_t all_bytes = 512;
    static_assert((message_at - wire::PacketHeader::bytes -
                   wire::AcknowledgementFrame::fixed_bytes -
                   wire::AcknowledgementFrame::range_bytes) %
                      64 ==
                  0);
    static_assert(message_at + wire::longest_data_frame_header + most_copied <= all_bytes);
    std::uint32_t room_;
    std::uint32_t begin_ = message_at;
    std::uint32_t end_ = message_at;
    std::uint32_t sent_bytes_ = 0;
    std::array<iovec, 2> parts_{};
    alignas(64) std::byte bytes_[all_bytes];  // written when there is something to be in it
};

}  // namespace via::links
