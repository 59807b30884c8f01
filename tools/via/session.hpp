// SPDX-License-Identifier: BSD-3-Clause
// A measurement from beginning to end, as each of the two sides sees it. The client leads: it
// connects, tells the terms, runs test after test and reports results; the server follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "supervisor.hpp"
#include "terms.hpp"

namespace via::tool {

/// How one test is measured. What is not given is chosen from a first short run.
struct TestPlan {
    TestTerms terms;
    std::optional<std::uint64_t> iterations;  ///< a repetition: round trips or messages
    std::optional<std::uint64_t> warmup;
    std::optional<std::uint32_t> batch;  ///< round trips between two looks at the clock
    std::uint32_t repetitions = 5;
    double seconds = 1;  ///< for all repetitions together, where iterations are not given
};

/// Where the device is a NIC of the papers: what else is simulated.
struct SimulatedHosts {
    std::string machine;
    std::string firmware;
    double clock_mhz = 0;  ///< 0: the NIC's own
};

/// Settings that a side changes before it opens its device.
struct SideSetting {
    std::string name;  ///< "VIA_NET_POLICY"
    std::string value;
};

struct SessionPlan {
    std::string device = "shm0";
    std::vector<SideSetting> settings;
    std::string discriminator;
    std::optional<std::string> host;  ///< of the server; none: this one
    /// How long a client comes again while the server's host does not answer.
    base::Nanoseconds retry = 0;
    SessionTerms terms;           ///< the client's; the server hears them
    std::vector<TestPlan> tests;  ///< the client's
    bool histogram = false;
    std::optional<SimulatedHosts> simulated;
    base::Nanoseconds patience = 30'000'000'000;  ///< for anything that waits for the other side
};

/// Reports one JSON object for each test: its terms and what was measured.
[[nodiscard]] base::Result<void> run_client(const SessionPlan& plan, SideReporter& reporter);
/// Serves one client.
[[nodiscard]] base::Result<void> run_server(const SessionPlan& plan, SideReporter& reporter);

/// Round trips between two looks at the clock: a look costs as much as a hop of a small message.
[[nodiscard]] std::uint32_t default_batch(std::uint64_t bytes, WaitKind wait);

}  // namespace via::tool
