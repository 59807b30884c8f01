// SPDX-License-Identifier: BSD-3-Clause
// What the bare machine can do, so that a measured value can be set beside its limit: one cache
// line bounced between two cores, two processes that take turns on one core, and memcpy by one
// core. All of it runs in two pinned processes over a shared anonymous mapping, and every run ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"

namespace via::bare {

struct CorePair {
    int first = 0;
    int second = 1;
};

/// The first two processors this process may use that are not threads of one core; if there is
/// only one core, its two threads. OutOfResources: only one processor may be used.
[[nodiscard]] base::Result<CorePair> two_cores();

struct PingPongOptions {
    CorePair cores;                       ///< first: the side that measures
    std::uint64_t samples = 1000;         ///< values returned
    std::uint64_t round_trips = 64;       ///< per sample: the clock is read once in so many
    std::uint64_t warm_up_samples = 64;   ///< taken first and thrown away
    std::uint64_t deadline_seconds = 20;  ///< for the whole run
};

/// One-way times in nanoseconds (half a round trip), one value per sample, in order of time.
/// A single cache line goes to and fro: each side waits for the other's number in it and puts the
/// next one there. The line moves to another page with each sample. Two ways to spin (with
/// and without a pause) are tried, and the faster one's samples are returned.
[[nodiscard]] base::Result<std::vector<double>> one_line_ping_pong(const PingPongOptions& options);

/// The same with one line for each direction, which is how a pair of one-way channels looks.
[[nodiscard]] base::Result<std::vector<double>> two_line_ping_pong(const PingPongOptions& options);

/// The same single line with both processes on cores.first, each yielding the processor while the
/// line is not its own.
[[nodiscard]] base::Result<std::vector<double>> yield_ping_pong(const PingPongOptions& options);

struct CopyOptions {
    int core = 0;
    std::size_t bytes = 1 << 20;  ///< of one buffer
    std::size_t buffers = 16;     ///< sources and destinations each, used in turn
    std::uint64_t samples = 50;
    std::uint64_t bytes_per_sample = 8 << 20;  ///< at least; rounded up to whole buffers
    std::uint64_t deadline_seconds = 20;
};

/// Bytes per second that one core copies with memcpy from shared memory to shared memory, one value
/// per sample.
[[nodiscard]] base::Result<std::vector<double>> copy_rate(const CopyOptions& options);

/// The middle value; of an even count the mean of the two middle ones; 0 of none.
[[nodiscard]] double median(std::vector<double> samples);

}  // namespace via::bare
