// SPDX-License-Identifier: BSD-3-Clause
#include "links/train.hpp"

#include <cstring>

namespace via::links {

void Train::begin(std::uint32_t packet_bytes, const wire::PacketGuard& guard) noexcept {
    guard_ = &guard;
    packet_bytes_ = packet_bytes;
    staged_ = 0;
    packets_ = 0;
    bytes_ = 0;
    open_ = false;
    parts_.clear();
    vectors_.clear();
}

void Train::open_packet(const wire::PacketHeader& header, std::uint64_t number) {
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

std::byte* Train::append(std::uint32_t bytes) {
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

void Train::refer(const std::byte* data, std::uint32_t bytes) {
    if (bytes == 0) return;
    if (bytes < least_reference || guard_->needs_copy()) {
        std::memcpy(append(bytes), data, bytes);
        return;
    }
    length_ += bytes;
    parts_.push_back({const_cast<std::byte*>(data), bytes});
}

void Train::pad(std::uint32_t bytes) {
    if (bytes <= length_) return;
    const std::uint32_t missing = bytes - length_;
    std::memset(append(missing), 0, missing);
}

void Train::drop_packet() noexcept {
    parts_.clear();
    staged_ = packet_start_;
    open_ = false;
    --packets_;
}

void Train::close_packet() {
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

void Train::finish() {
    if (open_) close_packet();
}

}  // namespace via::links
