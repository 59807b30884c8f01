// SPDX-License-Identifier: BSD-3-Clause
// A heap that can be told to fail. A program that is linked with this uses it everywhere, also in
// the library.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace via::test {

enum class Shortage : std::uint8_t {
    None,
    Once,    ///< one allocation fails
    Lasting  ///< from one on, all of them do
};

/// For the calling thread: the next `allocations` succeed.
void run_short(Shortage shortage, std::uint32_t allocations) noexcept;
/// Ends it. Has anything failed?
bool end_shortage() noexcept;

/// Another thread that gets nothing; 0: none.
extern std::atomic<pid_t> starved_thread;
/// How often it was refused.
extern std::atomic<std::uint32_t> refusals;

}  // namespace via::test
