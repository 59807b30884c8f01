// SPDX-License-Identifier: BSD-3-Clause
// A lab: hosts out of network namespaces with links out of veth pairs, on one machine. For the
// command `via lab`, for tests and for benchmarks.
//
//     auto lab = Lab::up({.name = {}});                  // a name of its own; gone with the object
//     lab.value().link(0).loss(10'000, "a");             // 1 % of what a sends over link 0
//     auto process = lab.value().start("a", {{"via", "pingpong", "--server"}});
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "child_program.hpp"
#include "host_space.hpp"
#include "lab_link.hpp"

namespace via::lab {

struct HostStatus {
    std::string name;
    std::string space;
    std::vector<ProcessInSpace> processes;
};

struct LabStatus {
    LabOptions options;
    std::vector<HostStatus> hosts;
    std::vector<std::vector<LinkEnd>> links;  ///< by number, then by host
};

class Lab {
  public:
    /// Whether this process may have labs here; else why not.
    [[nodiscard]] static base::Result<void> possible();
    /// Makes it. If it is there already and as asked for, that is found instead; what a crash has
    /// left half made is made anew.
    [[nodiscard]] static base::Result<Lab> up(LabOptions options);
    /// One that is there. It stays when the object goes.
    [[nodiscard]] static base::Result<Lab> find(std::string_view name);
    /// Ends what runs in it and removes it, whatever is left of it. False: there was none.
    [[nodiscard]] static base::Result<bool> take_down(std::string_view name);
    /// The names of all that are there.
    [[nodiscard]] static std::vector<std::string> present();

    Lab(Lab&& other) noexcept;
    Lab& operator=(Lab&&) = delete;
    Lab(const Lab&) = delete;
    Lab& operator=(const Lab&) = delete;
    /// Takes it down, unless it was found or is to be kept.
    ~Lab();
    void keep() { owned_ = false; }

    [[nodiscard]] const LabOptions& options() const { return options_; }
    /// Fails if there is no such link.
    [[nodiscard]] base::Result<LabLink> find_link(unsigned number) const;
    /// For a number that is known to be right.
    [[nodiscard]] LabLink link(unsigned number) const { return {options_, number}; }
    [[nodiscard]] std::string address(std::string_view host, unsigned link) const;
    [[nodiscard]] std::string address6(std::string_view host, unsigned link) const;
    [[nodiscard]] base::Result<std::string> space(std::string_view host) const;

    /// The calling thread is in the host from here on, and so is what it starts. There is no way
    /// back: best done by a child process, such as a side of run_sides().
    [[nodiscard]] base::Result<void> enter(std::string_view host) const;
    /// Calls it from a thread of its own that has entered the host, and waits for its end. A socket
    /// that it makes is the host's, whoever uses it later.
    [[nodiscard]] base::Result<void> in_host(std::string_view host,
                                             const std::function<void()>& what) const;
    /// The command, changed so that it runs in the host.
    [[nodiscard]] base::Result<tool::child::Command> inside(std::string_view host,
                                                            tool::child::Command command) const;
    /// A program in the host; ended with the object or with this process.
    [[nodiscard]] base::Result<tool::child::Process> start(std::string_view host,
                                                           tool::child::Command command) const;
    /// To its end.
    [[nodiscard]] base::Result<tool::child::Outcome> run(std::string_view host,
                                                         std::vector<std::string> arguments,
                                                         base::Deadline deadline) const;
    [[nodiscard]] base::Result<LabStatus> status() const;

  private:
    Lab(LabOptions options, bool owned) : options_(std::move(options)), owned_(owned) {}

    LabOptions options_;
    bool owned_;
};

}  // namespace via::lab
