// SPDX-License-Identifier: BSD-3-Clause
// Packets of equal length on their way into one system call. Headers and short payloads are put
// together here; long payloads are referred to where they lie. Where the processor can copy and
// check in one go, payloads of middling length are copied as well: so the kernel finds one piece
// instead of a hundred.
//
// Or one long packet, which the kernel cuts into datagrams (wire/long_packet.hpp).
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/aligned_bytes.hpp"
#include "base/device_copy.hpp"
#include "wire/long_packet.hpp"
#include "wire/packet.hpp"
#include "wire/packet_guard.hpp"

namespace via::links {

class Train {
  public:
    static constexpr std::uint32_t most_bytes = 65000;
    static constexpr std::uint32_t most_packets = 120;
    /// Shorter payloads are copied: a reference costs more than they do.
    static constexpr std::uint32_t least_reference = 256;
    /// Shorter ones are not worth the further system calls of lending.
    static constexpr std::uint32_t least_lent = 32U << 10U;
    /// A packet for the kernel holds no more pages beside a header of its own.
    static constexpr std::uint32_t most_lent_pages = 15;
    static constexpr std::uint32_t page_bytes = 4096;

    /// What the kernel needs for a part of its own is worth copying about so many bytes.
    static constexpr std::uint32_t most_copied = 2048;

    /// `copies`: payloads up to `most_copied`. The packets are the same.
    explicit Train(bool copies = wire::crc32c_copies())
        : staging_(base::aligned_bytes(staging_bytes)),
          vectors_(new iovec[most_vectors]),
          most_copied_(copies ? most_copied : 0) {}

    /// The packets carry `header`, which has no number, with consecutive ones from `number` on, and
    /// together no more than `limit` bytes unless there is only one.
    void begin(std::uint32_t packet_bytes, std::uint32_t limit, const wire::PacketGuard& guard,
               const wire::PacketHeader& header, std::uint64_t number) noexcept;
    /// One packet, which fills no more than `limit` bytes of datagrams and may be a long one.
    /// `lends`: its payload may be sent as it lies, without a copy by the kernel.
    void begin_long(std::uint32_t datagram_bytes, std::uint32_t limit,
                    const wire::PacketGuard& guard, const wire::PacketHeader& header,
                    std::uint64_t number, bool lends = false) noexcept;
    /// The packet before it is filled up to the common length. Packets before the last are equal.
    void open_packet();
    /// Bytes that still fit into the packet.
    [[nodiscard]] std::uint32_t room() const noexcept { return capacity_ - length_; }
    [[nodiscard]] bool packet_empty() const noexcept {
        return length_ == wire::PacketHeader::bytes;
    }
    /// Place for `bytes` more of the packet, to be written by the caller at once.
    [[nodiscard]] std::byte* append(std::uint32_t bytes) noexcept;
    void refer(const std::byte* data, std::uint32_t bytes) noexcept;
    /// The same with what stays as it is until the peer has acknowledged it.
    void lend(const std::byte* data, std::uint32_t bytes) noexcept;
    /// A payload behind all frames of the packet; its frame says so. The caller has asked
    /// piece_apart(), and everything that follows is put apart, too.
    void lend_apart(const std::byte* data, std::uint32_t bytes) noexcept;
    /// How much of that much goes there, behind a frame of `header` bytes: all of it, or what ends
    /// where a page does.
    [[nodiscard]] std::uint32_t piece_apart(std::uint32_t header, const std::byte* data,
                                            std::uint32_t bytes) const noexcept;
    [[nodiscard]] std::uint32_t bytes_apart() const noexcept { return apart_bytes_; }
    [[nodiscard]] bool lends() const noexcept { return lends_; }
    /// The open packet as it was when it had that length, with nothing apart.
    void rewind(std::uint32_t length) noexcept;
    [[nodiscard]] std::uint32_t length() const noexcept { return length_; }
    /// How much of that much goes into the packet: what is lent ends where a page does, so that the
    /// next piece begins with a whole one.
    [[nodiscard]] std::uint32_t piece_of(const std::byte* data, std::uint32_t bytes) const noexcept;
    /// A packet that was opened just now is all of this, and as much payload as there is room for.
    void make_continuation(const wire::Continuation& piece) noexcept;
    /// Fills the packet up to `bytes`.
    void pad(std::uint32_t bytes) noexcept;
    /// Forgets the packet that was opened last.
    void drop_packet() noexcept;
    void finish() noexcept;

    [[nodiscard]] std::uint32_t packets() const noexcept { return packets_; }
    /// Of each packet but the last, which may be shorter.
    [[nodiscard]] std::uint32_t packet_bytes() const noexcept { return packet_bytes_; }
    /// It has become a long packet.
    [[nodiscard]] bool is_long() const noexcept { return is_long_; }
    /// The last of the parts are lent, and all of them are payload.
    [[nodiscard]] bool lends_last() const noexcept {
        return is_long_ && lent_end_ != 0 && lent_end_ == vectors_used_;
    }
    /// The parts before those.
    [[nodiscard]] std::size_t parts_not_lent() const noexcept { return lent_from_; }
    [[nodiscard]] std::uint32_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::span<const iovec> parts() const noexcept {
        return {vectors_.get(), vectors_used_};
    }
    /// Would another packet of full length still go into the same system call?
    [[nodiscard]] bool has_room() const noexcept {
        return (packets_ + 1) * packet_bytes_ <= limit_ && packets_ < most_packets &&
               vectors_used_ + most_parts_ <= most_vectors;
    }

  private:
    static constexpr std::size_t most_vectors = 1024;  ///< of one call
    static constexpr std::size_t staging_bytes = 2 * 65536;
    void close_packet() noexcept;
    [[nodiscard]] static std::size_t pages_of(const void* data, std::size_t bytes) noexcept;
    [[nodiscard]] bool follows_apart(const std::byte* data) const noexcept;
    void forget_apart() noexcept;
    void close_apart() noexcept;
    void check_until(const std::byte* end) noexcept;

    base::AlignedBytes staging_;
    std::unique_ptr<iovec[]> vectors_;
    const std::uint32_t most_copied_;
    bool sealed_ = false;
    std::uint32_t checksum_ = 0;          ///< of the open packet, unless it is sealed,
    const std::byte* checked_ = nullptr;  ///< up to here
    std::size_t vectors_used_ = 0;
    std::size_t vectors_before_ = 0;  ///< before the open packet, and
    std::size_t bytes_before_ = 0;    ///< in the last of them
    std::size_t most_parts_ = 0;      ///< vectors of a packet: few payloads are worth one
    std::byte* staged_ = nullptr;
    std::byte* packet_start_ = nullptr;  ///< in the staging
    const wire::PacketGuard* guard_ = nullptr;
    wire::HeaderWords header_;  ///< without a number
    std::uint64_t number_ = 0;  ///< of the next packet
    bool open_ = false;
    std::uint32_t packet_bytes_ = 0;
    std::uint32_t datagram_bytes_ = 0;  ///< the longest packet that is no long one
    bool is_long_ = false;
    bool lends_ = false;
    std::size_t lent_from_ = 0;  ///< vectors that are lent
    std::size_t lent_end_ = 0;
    std::size_t apart_used_ = 0;
    std::size_t apart_pages_ = 0;
    std::uint32_t apart_bytes_ = 0;
    std::uint32_t limit_ = 0;
    std::uint32_t capacity_ = 0;
    std::uint32_t length_ = 0;
    std::uint32_t packets_ = 0;  ///< with the open one
    std::uint32_t bytes_ = 0;    ///< of closed packets
    /// Last, so that what every train needs lies together.
    std::array<iovec, most_lent_pages> apart_{};
};

inline void Train::begin(std::uint32_t packet_bytes, std::uint32_t limit,
                         const wire::PacketGuard& guard, const wire::PacketHeader& header,
                         std::uint64_t number) noexcept {
    guard_ = &guard;
    header_ = wire::words_of(header);
    number_ = number;
    packet_bytes_ = datagram_bytes_ = packet_bytes;
    is_long_ = false;
    lends_ = false;
    lent_from_ = lent_end_ = 0;
    forget_apart();
    limit_ = limit;
    capacity_ = packet_bytes - guard.overhead();
    sealed_ = guard.sealed();
    most_parts_ = 2 * packet_bytes / least_reference + 4;
    staged_ = staging_.get();
    vectors_used_ = 0;
    packets_ = 0;
    bytes_ = 0;
    open_ = false;
}

inline void Train::begin_long(std::uint32_t datagram_bytes, std::uint32_t limit,
                              const wire::PacketGuard& guard, const wire::PacketHeader& header,
                              std::uint64_t number, bool lends) noexcept {
    const std::uint32_t datagrams = std::min(limit / datagram_bytes, most_packets);
    begin(datagrams * datagram_bytes - wire::LongPacketPrefix::bytes, limit, guard, header, number);
    datagram_bytes_ = datagram_bytes;
    lends_ = lends;
    staged_ += wire::LongPacketPrefix::bytes;
}

inline void Train::open_packet() {
    if (open_) {
        pad(capacity_);
        close_packet();
    }
    open_ = true;
    ++packets_;
    packet_start_ = staged_;
    vectors_before_ = vectors_used_;
    if (vectors_used_ != 0) bytes_before_ = vectors_[vectors_used_ - 1].iov_len;
    length_ = 0;
    const auto number = static_cast<std::uint32_t>(number_++);
    wire::encode(append(wire::PacketHeader::bytes),
                 wire::HeaderWords{header_.first, header_.second | number});
    checksum_ = guard_->seed();
    checked_ = packet_start_ + wire::PacketHeader::covered_from;
}

inline void Train::check_until(const std::byte* end) noexcept {
    if (end != checked_)
        checksum_ = wire::crc32c(checksum_, checked_, static_cast<std::size_t>(end - checked_));
    checked_ = end;
}

inline std::byte* Train::append(std::uint32_t bytes) noexcept {
    std::byte* at = staged_;
    staged_ += bytes;
    length_ += bytes;
    if (vectors_used_ != 0) {
        iovec& last = vectors_[vectors_used_ - 1];
        if (static_cast<std::byte*>(last.iov_base) + last.iov_len == at) {
            last.iov_len += bytes;
            return at;
        }
    }
    vectors_[vectors_used_++] = {at, bytes};
    return at;
}

inline void Train::make_continuation(const wire::Continuation& piece) noexcept {
    static_cast<void>(append(wire::Continuation::bytes));
    wire::encode(packet_start_, piece);
}

inline void Train::refer(const std::byte* data, std::uint32_t bytes) noexcept {
    if (bytes < least_reference || sealed_) {
        base::device_copy(append(bytes), data, bytes);
        return;
    }
    check_until(staged_);
    if (bytes <= most_copied_) {
        checksum_ = wire::crc32c_copy(checksum_, append(bytes), data, bytes);
        checked_ = staged_;
        return;
    }
    checksum_ = wire::crc32c(checksum_, data, bytes);
    length_ += bytes;
    vectors_[vectors_used_++] = {const_cast<std::byte*>(data), bytes};
}

inline void Train::lend(const std::byte* data, std::uint32_t bytes) noexcept {
    refer(data, bytes);
    if (!lends_ || bytes < least_lent) return;
    lent_from_ = vectors_used_ - 1;
    lent_end_ = vectors_used_;
}

inline std::size_t Train::pages_of(const void* data, std::size_t bytes) noexcept {
    return (reinterpret_cast<std::uintptr_t>(data) % page_bytes + bytes + page_bytes - 1) /
           page_bytes;
}

inline bool Train::follows_apart(const std::byte* data) const noexcept {
    if (apart_used_ == 0) return false;
    const iovec& last = apart_[apart_used_ - 1];
    return static_cast<const std::byte*>(last.iov_base) + last.iov_len == data;
}

inline std::uint32_t Train::piece_apart(std::uint32_t header, const std::byte* data,
                                        std::uint32_t bytes) const noexcept {
    const bool follows = follows_apart(data);
    if (room() <= header || (!follows && apart_used_ == apart_.size())) return 0;
    const auto in_page =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(data) % page_bytes);
    // The page in which the one before ends is counted already.
    const auto pages = most_lent_pages - static_cast<std::uint32_t>(apart_pages_) +
                       (follows && in_page != 0 ? 1U : 0U);
    const std::uint32_t most = std::min(room() - header + in_page, pages * page_bytes);
    if (in_page + bytes <= most) return bytes;
    const std::uint32_t end = most / page_bytes * page_bytes;
    return end > in_page ? end - in_page : 0;
}

inline void Train::lend_apart(const std::byte* data, std::uint32_t bytes) noexcept {
    if (follows_apart(data)) {
        iovec& last = apart_[apart_used_ - 1];
        apart_pages_ -= pages_of(last.iov_base, last.iov_len);
        last.iov_len += bytes;
        apart_pages_ += pages_of(last.iov_base, last.iov_len);
    } else {
        apart_[apart_used_++] = {const_cast<std::byte*>(data), bytes};
        apart_pages_ += pages_of(data, bytes);
    }
    apart_bytes_ += bytes;
    length_ += bytes;
}

inline void Train::forget_apart() noexcept {
    apart_used_ = apart_pages_ = 0;
    apart_bytes_ = 0;
}

inline void Train::rewind(std::uint32_t length) noexcept {
    const std::uint32_t staged = length_ - apart_bytes_ - length;
    staged_ -= staged;
    vectors_[vectors_used_ - 1].iov_len -= staged;
    if (vectors_[vectors_used_ - 1].iov_len == 0) --vectors_used_;
    length_ = length;
    forget_apart();
}

/// Puts what lies apart behind all else.
inline void Train::close_apart() noexcept {
    check_until(staged_);
    lent_from_ = vectors_used_;
    for (std::size_t i = 0; i < apart_used_; ++i) {
        checksum_ = wire::crc32c(checksum_, apart_[i].iov_base, apart_[i].iov_len);
        vectors_[vectors_used_++] = apart_[i];
    }
    lent_end_ = vectors_used_;
    forget_apart();
}

inline std::uint32_t Train::piece_of(const std::byte* data, std::uint32_t bytes) const noexcept {
    if (!lends_ || bytes < least_lent + page_bytes) return bytes;
    const auto in_page =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(data) % page_bytes);
    const std::uint32_t pages = std::min((in_page + bytes) / page_bytes, most_lent_pages);
    return pages * page_bytes - in_page;
}

inline void Train::pad(std::uint32_t bytes) noexcept {
    if (bytes <= length_) return;
    const std::uint32_t missing = bytes - length_;
    std::memset(append(missing), 0, missing);
}

inline void Train::drop_packet() noexcept {
    vectors_used_ = vectors_before_;
    if (vectors_used_ != 0) vectors_[vectors_used_ - 1].iov_len = bytes_before_;
    staged_ = packet_start_;
    open_ = false;
    --packets_;
    --number_;
}

inline void Train::close_packet() noexcept {
    if (sealed_) [[unlikely]] {
        const std::uint32_t overhead = guard_->overhead();
        std::memset(append(overhead), 0, overhead);  // for the tag
        const iovec whole{packet_start_, length_};
        guard_->protect(wire::decode_packet_header(packet_start_), number_ - 1, {&whole, 1});
    } else {
        check_until(staged_);
        wire::store(packet_start_ + wire::PacketHeader::checksum_at, checksum_);
    }
    bytes_ += length_;
    open_ = false;
}

inline void Train::finish() noexcept {
    if (apart_used_ != 0) close_apart();
    if (open_) close_packet();
    if (bytes_ <= datagram_bytes_ || packets_ != 1) return;
    is_long_ = true;
    constexpr std::uint32_t prefix = wire::LongPacketPrefix::bytes;
    wire::encode(packet_start_ - prefix,
                 wire::LongPacketPrefix{static_cast<std::uint32_t>(header_.first), bytes_});
    vectors_[0] = {packet_start_ - prefix, vectors_[0].iov_len + prefix};
    bytes_ += prefix;
}

}  // namespace via::links
