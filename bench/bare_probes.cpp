// SPDX-License-Identifier: BSD-3-Clause
#include "bare_probes.hpp"

#include <algorithm>
#include <utility>

namespace via::bench {

namespace {

using base::Result;

using PingPong = Result<std::vector<double>> (*)(const bare::PingPongOptions&);

Probe ping_pong_probe(std::string label, PingPong ping_pong, bare::PingPongOptions options) {
    return {std::move(label),
            Quantity::OneWayMicroseconds,
            {},
            [ping_pong, options]() -> Result<double> {
                auto nanoseconds = ping_pong(options);
                if (!nanoseconds) return std::move(nanoseconds).error();
                return bare::median(std::move(nanoseconds.value())) / 1000;
            }};
}

}  // namespace

Probe bare_one_line(bare::CorePair cores) {
    return ping_pong_probe("bare cache line", bare::one_line_ping_pong,
                           {.cores = cores, .samples = 4000});
}

Probe bare_two_lines(bare::CorePair cores) {
    return ping_pong_probe("bare, a line each way", bare::two_line_ping_pong,
                           {.cores = cores, .samples = 4000});
}

Probe bare_yield(bare::CorePair cores) {
    return ping_pong_probe("bare sched_yield", bare::yield_ping_pong,
                           {.cores = cores, .samples = 1000});
}

Probe bare_copy(int core, std::size_t bytes, std::function<Result<std::size_t>()> buffers) {
    return {"memcpy",
            Quantity::BytesPerSecond,
            {},
            [core, bytes, buffers = std::move(buffers)]() -> Result<double> {
                auto count = buffers();
                if (!count) return std::move(count).error();
                bare::CopyOptions options;
                options.core = core;
                options.bytes = bytes;
                options.buffers = count.value();
                // Small messages are slow to copy: less of them makes a sample.
                options.bytes_per_sample = std::min<std::uint64_t>(8 << 20, bytes * 8192);
                auto rates = bare::copy_rate(options);
                if (!rates) return std::move(rates).error();
                return bare::median(std::move(rates.value()));
            }};
}

}  // namespace via::bench
