// SPDX-License-Identifier: BSD-3-Clause
// Runs the sides of a measurement as child processes and watches over them: collects what they
// report, shows progress, and ends all of them when one fails, hangs or the user breaks off. The
// parent itself never touches VIPL, so each side is a fresh process.
#pragma once

#include <signal.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/cpu.hpp"
#include "base/result.hpp"

namespace via::tool {

/// Written by a side, read by the supervisor; lies in memory that both share.
struct alignas(base::cache_line) SideProgress {
    std::atomic<const char*> stage{"starting"};  ///< a literal: parent and child are one image
    std::atomic<std::uint64_t> done{0};          ///< also the sign of life
    std::atomic<std::uint64_t> total{0};
};

/// A child's end.
class SideReporter {
  public:
    SideReporter(SideProgress& progress, int pipe) : progress_(progress), pipe_(pipe) {}

    void stage(const char* literal) {
        progress_.stage.store(literal, std::memory_order_relaxed);
        alive();
    }
    void alive() { progress_.done.fetch_add(1, std::memory_order_relaxed); }
    void expect(std::uint64_t total) {
        progress_.done.store(0, std::memory_order_relaxed);
        progress_.total.store(total, std::memory_order_relaxed);
    }
    /// For hot loops: a plain counter to store into.
    [[nodiscard]] std::atomic<std::uint64_t>& counter() { return progress_.done; }
    /// One JSON value to the parent.
    void report(const nlohmann::json& value);

  private:
    SideProgress& progress_;
    int pipe_;
};

struct Side {
    std::string name;        ///< "client", "server"
    std::optional<int> cpu;  ///< to pin it to
    std::function<base::Result<void>(SideReporter&)> run;
};

/// While one lives, the signals that end a program are only remembered, so that what was made can
/// be taken down. run_sides() has one of its own and ends at a signal that came before it, too.
class SignalGuard {
  public:
    SignalGuard();
    ~SignalGuard();
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;
    /// The number of the last one; 0: none came.
    [[nodiscard]] static int signal_received() noexcept;

  private:
    static constexpr std::array<int, 3> signals{SIGINT, SIGTERM, SIGHUP};
    std::array<struct sigaction, 3> before_{};
};

struct SupervisorOptions {
    /// A side without a sign of life for so long is taken for hung.
    base::Nanoseconds quiet_limit = 30'000'000'000;
    bool show_progress = true;
    std::function<void(const nlohmann::json&)> on_report;  ///< called as reports come in
};

/// Succeeds when all sides have. No child is left when it returns.
[[nodiscard]] base::Result<void> run_sides(const std::vector<Side>& sides,
                                           const SupervisorOptions& options);

}  // namespace via::tool
