// SPDX-License-Identifier: BSD-3-Clause
// What `pingpong` and `window` have in common: their options, and starting the sides.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cpu_choice.hpp"
#include "session.hpp"
#include "supervisor.hpp"

namespace CLI {
class App;
}

namespace via::lab {
class Lab;
}

namespace via::tool {

/// As they stand on the command line.
struct MeasurementOptions {
    std::string device;                   ///< empty: shm0, in a lab net0
    std::optional<std::string> machine;   ///< of a simulated NIC
    std::optional<std::string> firmware;  ///< the same
    std::optional<double> clock;          ///< the same, MHz
    std::string bytes = "8";
    std::optional<std::uint64_t> iterations;
    std::optional<std::uint64_t> warmup;
    std::optional<std::uint32_t> repetitions;
    double seconds = 1;
    std::string memory = "kmem";
    std::string wait = "poll";
    std::string reliability = "delivery";
    std::string operation = "send";
    std::optional<std::uint32_t> idle_vis;
    bool completion_queue = false;
    bool check = false;
    bool fresh = false;
    std::optional<std::uint32_t> window;
    std::optional<std::uint32_t> buffers;
    std::optional<std::uint32_t> batch;
    std::optional<std::string> cpus;
    std::optional<std::string> server;   ///< set: be the server; the text is a discriminator
    std::optional<std::string> connect;  ///< NAME[:DISCRIMINATOR]
    std::optional<std::string> lab;      ///< set: both sides in hosts of a lab; empty: any name
    std::optional<unsigned> links;       ///< of the lab
    std::optional<unsigned> mtu;
    std::optional<std::string> policy;  ///< for VIA_NET_POLICY
    std::optional<std::string> raw;     ///< for VIA_NET_RAW
    bool secure = false;                ///< for VIA_NET_SECURE
    double timeout = 30;
    double retry = 10;  ///< seconds, while nobody answers to --connect
    bool json = false;
    bool histogram = false;
};

/// Adds the options of `program`. The options must live as long as the command.
void add_measurement_options(CLI::App& command, Program program, MeasurementOptions& options);

/// The name in NAME[:DISCRIMINATOR]; an IPv6 address is a name, in brackets if there is more behind
/// it. The discriminator is left alone if there is none. Empty: it is neither.
[[nodiscard]] std::string split_server(const std::string& text, std::string& discriminator);

/// The plan that the options ask for; InvalidArgument says what is wrong with them.
[[nodiscard]] base::Result<SessionPlan> make_plan(const MeasurementOptions& options,
                                                  Program program);

/// The processors for the client (first) and the server.
[[nodiscard]] base::Result<CpuPair> cpus_for(const MeasurementOptions& options);

using ResultHandler = std::function<void(const nlohmann::json&)>;

/// Client and server as two processes of this machine; `on_result` gets each result as it comes.
[[nodiscard]] base::Result<void> measure_here(SessionPlan plan, const CpuPair& cpus,
                                              const ResultHandler& on_result);

using ClientRun = std::function<base::Result<void>(SideReporter&)>;

/// The server in host b of the lab, and what `client` does in host a once b's agent is there, with
/// further sides beside them.
[[nodiscard]] base::Result<void> run_in_lab(const SessionPlan& plan, const CpuPair& cpus,
                                            const lab::Lab& lab, std::vector<Side> further,
                                            const SupervisorOptions& options,
                                            const ClientRun& client);

/// What a whole command does but for showing the results: runs what the options ask for (both
/// sides, the server or the client) and returns all results; the server has none.
[[nodiscard]] base::Result<std::vector<nlohmann::json>> measure(const MeasurementOptions& options,
                                                                Program program);

/// The results as JSON: a single one as it is, several as {"results": [...]}.
[[nodiscard]] nlohmann::json joined(const std::vector<nlohmann::json>& results);

/// "4096 bytes" of memory, waiting and so on in one line for people.
[[nodiscard]] std::string headline(const MeasurementOptions& options, Program program);

}  // namespace via::tool
