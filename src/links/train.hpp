// SPDX-License-Identifier: BSD-3-Clause
// Packets of equal length on their way into one system call. Headers and short payloads are put
// together here; long payloads are referred to where they lie.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/device_copy.hpp"
#include "wire/packet.hpp"
#include "wire/packet_guard.hpp"

namespace via::links {

class Train {
  public:
    static constexpr std::uint32_t most_bytes = 65000;
    /// Shorter payloads are copied: a reference costs more than they do.
    static constexpr std::uint32_t least_reference = 256;

    Train() : staging_(new std::byte[staging_bytes]) {}

    void begin(std::uint32_t packet_bytes, const wire::PacketGuard& guard) noexcept;
    /// The packet before it is filled up to the common length. Packets before the last are equal.
    void open_packet(const wire::PacketHeader& header, std::uint64_t number);
    /// Bytes that still fit into the packet.
    [[nodiscard]] std::uint32_t room() const noexcept { return capacity_ - length_; }
    [[nodiscard]] bool packet_empty() const noexcept {
        return length_ == wire::PacketHeader::bytes;
    }
    /// Place for `bytes` more of the packet, to be written by the caller at once.
    [[nodiscard]] std::byte* append(std::uint32_t bytes);
    void refer(const std::byte* data, std::uint32_t bytes);
    /// Fills the packet up to `bytes`.
    void pad(std::uint32_t bytes);
    /// Forgets the packet that was opened last.
    void drop_packet() noexcept;
    void finish();

    [[nodiscard]] std::uint32_t packets() const noexcept { return packets_; }
    [[nodiscard]] std::uint32_t packet_bytes() const noexcept { return packet_bytes_; }
    [[nodiscard]] std::uint32_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::span<const iovec> parts() const noexcept { return vectors_; }
    /// Would another packet of full length still go into the same system call?
    [[nodiscard]] bool has_room(std::uint32_t limit) const noexcept {
        return (packets_ + 1) * packet_bytes_ <= limit && packets_ < most_packets &&
               vectors_.size() + parts_.size() < most_vectors;
    }

  private:
    static constexpr std::uint32_t most_packets = 120;
    static constexpr std::size_t most_vectors = 900;
    static constexpr std::size_t staging_bytes = 2 * 65536;
    void close_packet();

    std::unique_ptr<std::byte[]> staging_;
    std::size_t staged_ = 0;
    std::size_t packet_start_ = 0;  ///< in the staging
    const wire::PacketGuard* guard_ = nullptr;
    wire::PacketHeader header_;
    std::uint64_t number_ = 0;
    bool open_ = false;
    std::uint32_t packet_bytes_ = 0;
    std::uint32_t capacity_ = 0;
    std::uint32_t length_ = 0;
    std::uint32_t packets_ = 0;  ///< with the open one
    std::uint32_t bytes_ = 0;    ///< of closed packets
    std::vector<iovec> parts_;   ///< of the open packet
    std::vector<iovec> vectors_;
};

inline void Train::begin(std::uint32_t packet_bytes, const wire::PacketGuard& guard) noexcept {
    guard_ = &guard;
    packet_bytes_ = packet_bytes;
    staged_ = 0;
    packets_ = 0;
    bytes_ = 0;
    open_ = false;
    parts_.clear();
    vectors_.clear();
}

inline void Train::open_packet(const wire::PacketHeader& header, std::uint64_t number) {
    if (open_) {
        pad(capacity_);
        close_packet();
    }
    header_ = header;
    number_ = number;
    open_ = true;
    ++packets_;
    capacity_ = packet_bytes_ - guard_->overhead();
    length_ = 0;
    packet_start_ = staged_;
    wire::encode(append(wire::PacketHeader::bytes), header);
}

inline std::byte* Train::append(std::uint32_t bytes) {
    std::byte* at = staging_.get() + staged_;
    staged_ += bytes;
    length_ += bytes;
    if (!parts_.empty()) {
        iovec& last = parts_.back();
        if (static_cast<std::byte*>(last.iov_base) + last.iov_len == at) {
            last.iov_len += bytes;
            return at;
        }
    }
    parts_.push_back({at, bytes});
    return at;
}

inline void Train::refer(const std::byte* data, std::uint32_t bytes) {
    if (bytes == 0) return;
    if (bytes < least_reference || guard_->needs_copy()) {
        base::device_copy(append(bytes), data, bytes);
        return;
    }
    length_ += bytes;
    parts_.push_back({const_cast<std::byte*>(data), bytes});
}

inline void Train::pad(std::uint32_t bytes) {
    if (bytes <= length_) return;
    const std::uint32_t missing = bytes - length_;
    std::memset(append(missing), 0, missing);
}

inline void Train::drop_packet() noexcept {
    parts_.clear();
    staged_ = packet_start_;
    open_ = false;
    --packets_;
}

inline void Train::close_packet() {
    const std::uint32_t overhead = guard_->overhead();
    if (overhead != 0) std::memset(append(overhead), 0, overhead);  // for the tag
    guard_->protect(header_, number_, parts_);
    for (const iovec& part : parts_) {
        if (!vectors_.empty()) {
            iovec& last = vectors_.back();
            if (static_cast<std::byte*>(last.iov_base) + last.iov_len == part.iov_base) {
                last.iov_len += part.iov_len;
                continue;
            }
        }
        vectors_.push_back(part);
    }
    parts_.clear();
    bytes_ += length_;
    open_ = false;
}

inline void Train::finish() {
    if (open_) close_packet();
}

}  // namespace via::links
