// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "bare/bare_limits.hpp"
#include "bare/pinning.hpp"
#include "bare/shared_mapping.hpp"
#include "base/clock.hpp"

namespace via::bare {

base::Result<std::vector<double>> copy_rate(const CopyOptions& options) {
    if (options.bytes == 0 || options.buffers == 0 || options.samples == 0) {
        return {base::Code::InvalidArgument,
                "a bare copy needs at least one sample of one buffer of one byte"};
    }
    // As the buffers of the stream test lie: large ones on pages, small ones on cache lines.
    const std::size_t alignment = options.bytes >= 4096 ? 4096 : 64;
    const std::size_t stride = (options.bytes + alignment - 1) / alignment * alignment;
    auto sources = SharedMapping::create(stride * options.buffers);
    if (!sources) return std::move(sources).error();
    auto destinations = SharedMapping::create(stride * options.buffers);
    if (!destinations) return std::move(destinations).error();
    auto pinned = PinnedScope::on(options.core);
    if (!pinned) return std::move(pinned).error();
    std::memset(sources.value().data(), 0x5a, sources.value().bytes());
    std::memset(destinations.value().data(), 0xa5, destinations.value().bytes());

    const std::uint64_t copies = std::max<std::uint64_t>(
        options.buffers, (options.bytes_per_sample + options.bytes - 1) / options.bytes);
    const auto deadline = base::Deadline::after_milliseconds(options.deadline_seconds * 1000);
    std::size_t buffer = 0;
    const auto one_sample = [&] {
        for (std::uint64_t copy = 0; copy < copies; ++copy) {
            std::memcpy(destinations.value().data() + buffer * stride,
                        sources.value().data() + buffer * stride, options.bytes);
            // Each copy is one message: the next must not be merged with it.
            asm volatile("" ::: "memory");
            buffer = buffer + 1 == options.buffers ? 0 : buffer + 1;
        }
    };
    one_sample();
    std::vector<double> rates(options.samples);
    for (double& rate : rates) {
        const base::Nanoseconds begin = base::monotonic_now();
        one_sample();
        const base::Nanoseconds end = base::monotonic_now();
        rate = static_cast<double>(copies * options.bytes) * 1e9 / static_cast<double>(end - begin);
        if (deadline.expired(end)) {
            return {base::Code::Timeout, "a bare copy of " + std::to_string(options.bytes) +
                                             " bytes took longer than " +
                                             std::to_string(options.deadline_seconds) + " s"};
        }
    }
    return rates;
}

double median(std::vector<double> samples) {
    if (samples.empty()) return 0;
    std::sort(samples.begin(), samples.end());
    const std::size_t middle = samples.size() / 2;
    if (samples.size() % 2 == 1) return samples[middle];
    return (samples[middle - 1] + samples[middle]) / 2;
}

}  // namespace via::bare
