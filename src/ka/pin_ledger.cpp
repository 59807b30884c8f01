// SPDX-License-Identifier: BSD-3-Clause
#include "ka/pin_ledger.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace via::ka {
namespace {

PageRange pages_of(std::uint64_t address, std::uint64_t bytes) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t first = address & ~(page - 1);
    const std::uint64_t end = (address + bytes + page - 1) & ~(page - 1);
    return {first, end - first};
}

void append(std::vector<PageRange>& ranges, std::uint64_t first, std::uint64_t end) {
    if (!ranges.empty() && ranges.back().first + ranges.back().bytes == first)
        ranges.back().bytes += end - first;
    else
        ranges.push_back({first, end - first});
}

// The system calls themselves: under a sanitizer the library's functions do nothing.
int lock(const PageRange& range) {
    return static_cast<int>(syscall(SYS_mlock, range.first, range.bytes));
}
void unlock(const PageRange& range) {
    syscall(SYS_munlock, range.first, range.bytes);
}

}  // namespace

void PageCounts::split(std::uint64_t at) {
    const auto next = counts_.upper_bound(at);
    const std::size_t count = next == counts_.begin() ? 0 : std::prev(next)->second;
    counts_.emplace(at, count);
}

void PageCounts::tidy() {
    std::size_t before = 0;
    for (auto next = counts_.begin(); next != counts_.end();) {
        if (next->second == before)
            next = counts_.erase(next);
        else
            before = (next++)->second;
    }
}

std::vector<PageRange> PageCounts::add(PageRange range) {
    const std::uint64_t end = range.first + range.bytes;
    split(range.first);
    split(end);
    std::vector<PageRange> fresh;
    for (auto part = counts_.find(range.first); part->first < end; ++part)
        if (part->second++ == 0) append(fresh, part->first, std::next(part)->first);
    tidy();
    return fresh;
}

std::vector<PageRange> PageCounts::remove(PageRange range) {
    const std::uint64_t end = range.first + range.bytes;
    split(range.first);
    split(end);
    std::vector<PageRange> freed;
    for (auto part = counts_.find(range.first); part->first < end; ++part)
        if (part->second > 0 && --part->second == 0)
            append(freed, part->first, std::next(part)->first);
    tidy();
    return freed;
}

base::Result<void> PinLedger::pin(std::uint64_t address, std::uint64_t bytes) {
    const PageRange range = pages_of(address, bytes);
    const std::vector<PageRange> fresh = counts_.add(range);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
        if (lock(fresh[i]) == 0) continue;
        const int failure = errno;
        for (std::size_t undone = 0; undone < i; ++undone)
            unlock(fresh[undone]);
        counts_.remove(range);
        base::Error error = base::system_error(
            failure, "cannot lock " + std::to_string(bytes) + " bytes in memory");
        if (failure == ENOMEM || failure == EPERM || failure == EAGAIN) {
            rlimit limit{};
            getrlimit(RLIMIT_MEMLOCK, &limit);
            error.code = base::Code::OutOfResources;
            error.sentence +=
                "; RLIMIT_MEMLOCK is " + (limit.rlim_cur == RLIM_INFINITY
                                              ? std::string("unlimited (is the range mapped?)")
                                              : std::to_string(limit.rlim_cur) + " bytes");
        }
        return error;
    }
    return {};
}

void PinLedger::unpin(std::uint64_t address, std::uint64_t bytes) noexcept {
    // The memory may be gone already; then so is the lock.
    for (const PageRange& range : counts_.remove(pages_of(address, bytes)))
        unlock(range);
}

}  // namespace via::ka
