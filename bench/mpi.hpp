// SPDX-License-Identifier: BSD-3-Clause
// An MPI: the programs of bench/mpi, compiled with that MPI's own compiler at bench time.
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
    /// `folder`: where the compiled programs go.
    Mpi(MpiKind kind, const std::string& folder, bare::CorePair cores);
    /// Before any probe is made. `sources`: the folder bench/mpi.
    void compile(const std::string& sources);
    /// The same program with other ways to the other rank; `transport` are arguments of the
    /// launcher.
    [[nodiscard]] Mpi over(std::string name, std::vector<std::string> transport,
                           MpiLaunch launch) const;
    /// The same, but there is none: why.
    [[nodiscard]] Mpi without(std::string why) const;

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] Probe latency(std::size_t bytes) const;
    [[nodiscard]] Probe message_rate(std::size_t bytes) const;
    [[nodiscard]] Probe stream(std::size_t bytes) const;
    /// Both ranks on the first core.
    [[nodiscard]] Probe one_core_latency(std::size_t bytes) const;
    /// Time of one; ranks take turns on the two cores.
    [[nodiscard]] Probe allreduce(std::size_t bytes, unsigned ranks) const;
    [[nodiscard]] Probe barrier(unsigned ranks) const;
    /// What a rank that waits in MPI_Recv uses of a processor.
    [[nodiscard]] Probe blocked_cpu() const;
    /// Starting an MPI takes long, so a curve is one run.
    [[nodiscard]] Curve latency_curve(const std::vector<std::size_t>& sizes) const;
    [[nodiscard]] Curve stream_curve(const std::vector<std::size_t>& sizes) const;
    [[nodiscard]] std::string version() const;

  private:
    /// A run of one of the programs.
    struct Job {
        std::string program = "pingpong";
        std::string what;
        unsigned ranks = 2;
        bool one_core = false;
        std::vector<std::size_t> sizes = {};
    };
    [[nodiscard]] base::Result<std::vector<Point>> measure(const Job& job) const;
    [[nodiscard]] base::Result<std::vector<Point>> launch(const Job& job,
                                                          std::vector<std::string> words) const;
    [[nodiscard]] Probe probe(Job job, Quantity quantity) const;
    [[nodiscard]] std::string program(const std::string& name) const;

    MpiKind kind_;
    std::string name_;
    std::string compiler_;
    std::string launcher_;
    std::string folder_;
    bare::CorePair cores_;
    std::vector<std::string> transport_;
    MpiLaunch launch_ = run;
    std::string missing_;
};

/// Lines of "BYTES VALUE"; anything else is an error.
[[nodiscard]] base::Result<std::vector<Point>> parse_points(const std::string& output);

}  // namespace via::bench
