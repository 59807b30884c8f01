// SPDX-License-Identifier: BSD-3-Clause
// Memory between two pages that nobody may touch: an access outside ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <span>

namespace via::test {

class GuardedMemory {
  public:
    enum class Edge { Front, Back };  ///< which end lies exactly at a forbidden page

    /// `bytes` is a multiple of 64.
    explicit GuardedMemory(std::size_t bytes, Edge edge = Edge::Back) : bytes_(bytes) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t inner = (bytes + page - 1) / page * page;
        whole_bytes_ = inner + 2 * page;
        void* whole = mmap(nullptr, whole_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (whole == MAP_FAILED) std::abort();
        whole_ = static_cast<std::byte*>(whole);
        if (mprotect(whole_ + page, inner, PROT_READ | PROT_WRITE) != 0) std::abort();
        data_ = edge == Edge::Front ? whole_ + page : whole_ + page + inner - bytes;
    }
    GuardedMemory(const GuardedMemory&) = delete;
    GuardedMemory& operator=(const GuardedMemory&) = delete;
    ~GuardedMemory() { munmap(whole_, whole_bytes_); }

    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] std::span<std::byte> span() const noexcept { return {data_, bytes_}; }
    [[nodiscard]] bool contains(const std::byte* first, std::size_t bytes) const noexcept {
        return first >= data_ && bytes <= bytes_ &&
               static_cast<std::size_t>(first - data_) <= bytes_ - bytes;
    }

  private:
    std::size_t bytes_;
    std::size_t whole_bytes_ = 0;
    std::byte* whole_ = nullptr;
    std::byte* data_ = nullptr;
};

}  // namespace via::test
