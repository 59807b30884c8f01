// SPDX-License-Identifier: BSD-3-Clause
#include "probe.hpp"

#include <algorithm>
#include <utility>

namespace via::bench {

namespace {

std::size_t fitting(double seconds, double seconds_each, double least, double most) {
    return static_cast<std::size_t>(std::clamp(seconds / seconds_each, least, most));
}

}  // namespace

Probe in_bytes_per_second(Probe message_rate, std::size_t bytes) {
    Probe probe = std::move(message_rate);
    probe.quantity = Quantity::BytesPerSecond;
    probe.take = [rate = std::move(probe.take), bytes]() -> base::Result<double> {
        auto messages = rate();
        if (!messages) return messages;
        return messages.value() * static_cast<double>(bytes);
    };
    return probe;
}

Probe sum_of(std::string label, std::vector<Probe> probes) {
    Probe result{std::move(label), probes.front().quantity, {}, {}};
    result.seconds = 0;
    for (const Probe& probe : probes) {
        if (result.missing.empty()) result.missing = probe.missing;
        result.seconds += probe.seconds;
    }
    result.take = [probes = std::move(probes)]() -> base::Result<double> {
        double sum = 0;
        for (const Probe& probe : probes) {
            auto value = probe.take();
            if (!value) return value;
            sum += value.value();
        }
        return sum;
    };
    return result;
}

Probe best_of(std::string label, std::vector<Probe> probes) {
    Probe result{std::move(label), probes.front().quantity, {}, {}};
    result.seconds = 0;
    for (Probe& probe : probes) {
        if (probe.missing.empty()) {
            result.seconds += probe.seconds;
            result.rivals.push_back(std::move(probe));
        } else if (result.missing.empty()) {
            result.missing = probe.missing;
        }
    }
    if (!result.rivals.empty()) result.missing.clear();
    return result;
}

Curve curve_of(std::string label, const std::vector<std::size_t>& sizes,
               const std::function<Probe(std::size_t bytes)>& probe_for) {
    Curve curve;
    curve.label = std::move(label);
    for (const std::size_t bytes : sizes) {
        Probe probe = probe_for(bytes);
        curve.quantity = probe.quantity;
        curve.missing = probe.missing;
        curve.steps.push_back(
            [bytes, take = std::move(probe.take)]() -> base::Result<std::vector<Point>> {
                auto value = take();
                if (!value) return std::move(value).error();
                return std::vector<Point>{{bytes, value.value()}};
            });
    }
    return curve;
}

std::vector<std::size_t> powers_of_two(std::size_t first, std::size_t last) {
    std::vector<std::size_t> sizes;
    for (std::size_t bytes = first; bytes <= last; bytes *= 2)
        sizes.push_back(bytes);
    return sizes;
}

std::size_t latency_iterations(std::size_t bytes) {
    const double round_trip = 2 * (0.3e-6 + static_cast<double>(bytes) / 5e9);
    return fitting(0.15, round_trip, 200, 200'000);
}

std::size_t stream_iterations(std::size_t bytes) {
    const double message = 0.1e-6 + static_cast<double>(bytes) / 10e9;
    return fitting(0.25, message, 500, 2'000'000);
}

}  // namespace via::bench
