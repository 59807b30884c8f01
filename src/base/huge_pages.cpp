// SPDX-License-Identifier: BSD-3-Clause
#include "base/huge_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/fd.hpp"
#include "base/settings.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // since Linux 6.1
#endif

namespace via::base {
namespace {

/// A block of 2 MB takes about a millisecond, so of very much memory only the beginning is moved at
/// once. The rest is left to the kernel, which does it by and by.
constexpr std::size_t most_moved_at_once = std::size_t{64} << 20;
/// Where ordinary pages have 64 KB, huge ones have 512 MB: too much to move while somebody waits.
constexpr std::size_t largest_block = std::size_t{32} << 20;
/// Of a block.
constexpr std::size_t least_part = 8;

/// One line of a file. No memory is taken: there may be none when memory is registered.
struct SystemSays {
    std::array<char, 128> text{};
    explicit SystemSays(const char* path) noexcept {
        const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
        if (file.valid() && ::read(file.get(), text.data(), text.size() - 1) < 0) text.front() = 0;
    }
};

std::size_t ask_system() noexcept {
    const SystemSays enabled("/sys/kernel/mm/transparent_hugepage/enabled");
    if (enabled.text.front() == 0 || std::strstr(enabled.text.data(), "[never]") != nullptr)
        return 0;
    const SystemSays size("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    const std::size_t bytes = std::strtoull(size.text.data(), nullptr, 10);
    return bytes <= largest_block ? bytes : 0;
}

/// Nothing, unless all of it is mapped.
std::size_t bytes_in_use(std::uintptr_t from, std::size_t bytes) noexcept {
    static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::array<unsigned char, 512> pages;
    std::size_t used = 0;
    for (const std::uintptr_t end = from + bytes; from < end; from += pages.size() * page) {
        const std::size_t slice = std::min<std::size_t>(end - from, pages.size() * page);
        if (::mincore(reinterpret_cast<void*>(from), slice, pages.data()) != 0) return 0;
        const auto last = pages.begin() + static_cast<std::ptrdiff_t>(slice / page);
        used += static_cast<std::size_t>(
            std::count_if(pages.begin(), last, [](unsigned char one) { return (one & 1) != 0; }));
    }
    return used * page;
}

}  // namespace

std::size_t huge_page_bytes() noexcept {
    static const std::size_t bytes =
        Settings::get().text("VIA_HUGE_PAGES") == "auto" ? ask_system() : 0;
    return bytes;
}

std::size_t use_huge_pages(void* address, std::size_t bytes) noexcept {
    const std::size_t block = huge_page_bytes();
    if (block == 0 || bytes < block / least_part) return 0;
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = first + bytes;
    std::size_t moved = 0;
    bool all = true;
    for (std::uintptr_t at = first / block * block; at < end; at += block) {
        if (moved < most_moved_at_once && bytes_in_use(at, block) >= block / 2 &&
            ::madvise(reinterpret_cast<void*>(at), block, MADV_COLLAPSE) == 0)
            moved += block;
        else
            all = false;
    }
    const std::uintptr_t first_whole = (first + block - 1) / block * block;
    const std::uintptr_t last_whole = end / block * block;
    if (!all && first_whole < last_whole)
        (void)::madvise(reinterpret_cast<void*>(first_whole), last_whole - first_whole,
                        MADV_HUGEPAGE);
    return moved;
}

}  // namespace via::base
