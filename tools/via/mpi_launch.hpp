// SPDX-License-Identifier: BSD-3-Clause
// The command line by which Open MPI runs a program over Viaduct. It only thinks; who finds
// programs and starts them is `via run`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace via::tool {

/// What carries the messages between ranks.
enum class MpiTransport {
    Via,           ///< our component for Open MPI; windows by the provider
    Fabric,        ///< libfabric's provider via for all
    SharedMemory,  ///< Open MPI's own, for comparison: vader
    Tcp,           ///< Open MPI's own, for comparison: btl/tcp
};

[[nodiscard]] constexpr bool is_viaduct(MpiTransport transport) noexcept {
    return transport == MpiTransport::Via || transport == MpiTransport::Fabric;
}

struct MpiLaunch {
    std::string launcher;  ///< mpirun of Open MPI
    MpiTransport transport = MpiTransport::Via;
    std::string component_path;   ///< Via: where Open MPI looks for components
    std::string no_component;     ///< Fabric: why, if Via was wanted
    std::string provider_folder;  ///< Via, Fabric: where libvia-fi.so lies; Via may do without
    std::string agent_program;    ///< viad; empty: the ranks find one themselves
    std::optional<unsigned> ranks;
    std::string hosts;  ///< as mpirun takes them: "one:2,two:2"; empty: this host
    unsigned cores = 1;
    bool root = false;
    std::vector<std::string> passed_on;      ///< names of variables that remote ranks get too
    std::vector<std::string> more_settings;  ///< "name=value": further parameters of Open MPI
    std::vector<std::string> program;        ///< with its arguments

    /// Ranks in hosts of a lab: all of them share the cores of this machine.
    struct Lab {
        std::string name;
        std::string via;  ///< the program, by which Open MPI enters the other hosts
        unsigned hosts = 2;
        unsigned links = 1;                   ///< how many are used
        bool fewer_links_than_there = false;  ///< the ranks must be told which
    };
    std::optional<Lab> lab;
};

struct MpiCommand {
    std::vector<std::pair<std::string, std::string>> environment;  ///< what is set for it
    std::vector<std::string> arguments;                            ///< the launcher first
};

[[nodiscard]] MpiCommand mpi_command(const MpiLaunch& launch);

/// The arguments of mpirun that choose its transport.
[[nodiscard]] std::vector<std::string> mpi_transport_words(const MpiLaunch& launch);

/// As one would type it into a shell.
[[nodiscard]] std::string shell_text(const MpiCommand& command);
/// A word as a shell must see it to take it as it is.
[[nodiscard]] std::string shell_quoted(std::string_view word);

/// What was set, for people: one short paragraph.
[[nodiscard]] std::string mpi_launch_summary(const MpiLaunch& launch);

/// Names of the variables of `environment` ("NAME=value") that say how Viaduct and libfabric work.
[[nodiscard]] std::vector<std::string> settings_in(const std::vector<std::string>& environment);

}  // namespace via::tool
