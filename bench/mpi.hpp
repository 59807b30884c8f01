// SPDX-License-Identifier: BSD-3-Clause
// An MPI beside ours: bench/mpi/pingpong.c, compiled with that MPI's own compiler at bench time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bare/bare_limits.hpp"
#include "base/clock.hpp"
#include "probe.hpp"
#include "process.hpp"

namespace via::bench {

enum class MpiKind { OpenMpi, Mpich };

/// Runs a launcher to its end and gives its output.
using MpiLaunch = std::function<base::Result<std::string>(const Command&, base::Deadline)>;

class Mpi {
  public:
    /// `folder`: where the compiled program goes.
    Mpi(MpiKind kind, const std::string& folder, bare::CorePair cores);
    /// Before any probe is made.
    void compile(const std::string& source);
    /// The same program with other ways to the other rank; `transport` are arguments of the
    /// launcher.
    [[nodiscard]] Mpi over(std::string name, std::vector<std::string> transport,
                           MpiLaunch launch) const;

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] Probe latency(std::size_t bytes) const;
    [[nodiscard]] Probe message_rate(std::size_t bytes) const;
    [[nodiscard]] Probe stream(std::size_t bytes) const;
    /// Starting an MPI takes long, so a curve is one run.
    [[nodiscard]] Curve latency_curve(const std::vector<std::size_t>& sizes) const;
    [[nodiscard]] Curve stream_curve(const std::vector<std::size_t>& sizes) const;
    [[nodiscard]] std::string version() const;

  private:
    [[nodiscard]] base::Result<std::vector<Point>> measure(
        const std::string& what, const std::vector<std::size_t>& sizes) const;
    [[nodiscard]] Probe probe(const std::string& what, std::size_t bytes, Quantity quantity) const;

    MpiKind kind_;
    std::string name_;
    std::string compiler_;
    std::string launcher_;
    std::string program_;
    bare::CorePair cores_;
    std::vector<std::string> transport_;
    MpiLaunch launch_ = run;
    std::string missing_;
};

/// Lines of "BYTES VALUE"; anything else is an error.
[[nodiscard]] base::Result<std::vector<Point>> parse_points(const std::string& output);

}  // namespace via::bench
