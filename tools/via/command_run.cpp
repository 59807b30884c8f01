// SPDX-License-Identifier: BSD-3-Clause
// `via run`: an MPI program over Viaduct, by the Open MPI that is installed.
#include <errno.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "child_program.hpp"
#include "command.hpp"
#include "lab/lab.hpp"
#include "lab/names.hpp"
#include "mpi_launch.hpp"
#include "own_libraries.hpp"
#include "supervisor.hpp"

namespace via::tool {
namespace {

using base::Code;
using base::Result;

constexpr int status_not_started = 127;  // as a shell says it

struct RunOptions {
    std::optional<unsigned> ranks;
    std::string hosts;
    std::optional<std::string> lab;
    std::optional<unsigned> links;
    std::optional<unsigned> lab_hosts;
    std::string over = "via";
    std::vector<std::string> settings;
    bool explain = false;
    bool quiet = false;
    std::vector<std::string> program;
};

unsigned usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
}

Result<std::string> find_launcher() {
    // Debian's name, which stays true when another MPI is the default.
    if (auto path = child::find_program("mpirun.openmpi"); !path.empty()) return path;
    if (auto path = child::find_program("mpirun"); !path.empty()) {
        child::Command ask;
        ask.arguments = {path, "--version"};
        const auto words = child::run(ask, base::Deadline::after_milliseconds(10'000));
        if (words && words.value().find("Open MPI") != std::string::npos) return path;
    }
    return {Code::NotFound,
            "no mpirun of Open MPI in PATH; Debian's package is openmpi-bin (other launchers: "
            "docs/mpi-launchers.md)"};
}

Result<MpiTransport> transport_of(const std::string& name) {
    if (name == "via") return MpiTransport::Via;
    if (name == "ofi") return MpiTransport::Fabric;
    if (name == "vader") return MpiTransport::SharedMemory;
    if (name == "tcp") return MpiTransport::Tcp;
    return {Code::InvalidArgument, fmt::format("--over {}: it is via, ofi, vader or tcp", name)};
}

/// The component for messages and the provider for windows; without a component the provider for
/// both.
Result<void> find_parts(MpiLaunch& launch) {
    auto folder = find_provider_folder();
    if (launch.transport == MpiTransport::Via) {
        auto components = find_component_path(launch.launcher);
        if (components) {
            launch.component_path = std::move(components).value();
            if (folder) launch.provider_folder = std::move(folder).value();
            return {};
        }
        launch.transport = MpiTransport::Fabric;
        launch.no_component = components.error().sentence;
    }
    if (!folder) return std::move(folder).error();
    launch.provider_folder = std::move(folder).value();
    return {};
}

/// The one that is up, with what is set for its links; else one that goes with the object.
Result<lab::Lab> lab_for(const RunOptions& options) {
    const std::string name = options.lab->empty() ? "lab" : *options.lab;
    const std::vector<std::string> present = lab::Lab::present();
    if (std::find(present.begin(), present.end(), name) == present.end()) {
        lab::LabOptions wanted;
        wanted.name = *options.lab;
        wanted.links = options.links.value_or(wanted.links);
        wanted.hosts = options.lab_hosts.value_or(wanted.hosts);
        return lab::Lab::up(wanted);
    }
    auto found = lab::Lab::find(name);
    if (!found) return found;
    if (options.links.value_or(1) > found.value().options().links)
        return {Code::InvalidArgument,
                fmt::format("the lab '{}' is up and has {} links, not {}", name,
                            found.value().options().links, *options.links)};
    if (options.lab_hosts.value_or(1) > found.value().options().hosts)
        return {Code::InvalidArgument,
                fmt::format("the lab '{}' is up and has {} hosts, not {}", name,
                            found.value().options().hosts, *options.lab_hosts)};
    return found;
}

std::vector<std::string> own_environment() {
    std::vector<std::string> entries;
    for (char** entry = environ; *entry != nullptr; ++entry)
        entries.emplace_back(*entry);
    return entries;
}

Result<MpiLaunch> plan_launch(const RunOptions& options) {
    MpiLaunch launch;
    if (options.program.empty())
        return {Code::InvalidArgument, "which program? via run -n 2 ./program arguments..."};
    auto transport = transport_of(options.over);
    if (!transport) return std::move(transport).error();
    launch.transport = transport.value();
    auto launcher = find_launcher();
    if (!launcher) return std::move(launcher).error();
    launch.launcher = std::move(launcher).value();
    if (is_viaduct(launch.transport)) {
        if (auto found = find_parts(launch); !found) return std::move(found).error();
        const std::string agent = child::own_folder() + "/viad";
        if (::getenv("VIA_AGENT_PROGRAM") == nullptr && ::access(agent.c_str(), X_OK) == 0)
            launch.agent_program = agent;
    }
    launch.program = options.program;
    if (options.hosts.empty() && child::find_program(launch.program.front()).empty())
        return {Code::NotFound,
                fmt::format("{}: no such program, or it may not be run{}", launch.program.front(),
                            launch.program.front().find('/') == std::string::npos
                                ? " (in this folder? say ./" + launch.program.front() + ")"
                                : "")};
    launch.ranks = options.ranks;
    launch.hosts = options.hosts;
    launch.cores = usable_cores();
    launch.root = ::geteuid() == 0;
    launch.passed_on = settings_in(own_environment());
    launch.more_settings = options.settings;
    return launch;
}

void put_into_environment(const MpiCommand& command) {
    for (const auto& [name, value] : command.environment)
        ::setenv(name.c_str(), value.c_str(), 1);
}

Result<void> execute(const MpiCommand& command) {
    std::vector<std::string> words = command.arguments;
    std::vector<char*> pointers;
    for (std::string& word : words)
        pointers.push_back(word.data());
    pointers.push_back(nullptr);
    put_into_environment(command);
    ::execv(pointers[0], pointers.data());
    return base::system_error(errno, "running " + command.arguments.front());
}

/// Its end is waited for, because the lab goes with it. Signals that are sent to this program alone
/// are handed on.
Result<int> run_in_lab(const MpiCommand& command, const lab::Lab& lab) {
    const SignalGuard guard;
    const pid_t child = ::fork();
    if (child < 0) return base::system_error(errno, "starting " + command.arguments.front());
    if (child == 0) {
        for (const int signal : {SIGINT, SIGTERM, SIGHUP})
            ::signal(signal, SIG_DFL);
        auto failed = lab.enter("a");
        if (failed) failed = execute(command);
        static_cast<void>(report_failure(failed.error()));
        ::_exit(status_not_started);
    }
    int handed_on = 0;
    for (;;) {
        int status = 0;
        const pid_t ended = ::waitpid(child, &status, 0);
        if (ended == child)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (ended < 0 && errno != EINTR)
            return base::system_error(errno, "waiting for " + command.arguments.front());
        if (const int signal = SignalGuard::signal_received(); signal != handed_on) {
            handed_on = signal;
            ::kill(child, signal);
        }
    }
}

void say(const RunOptions& options, const MpiLaunch& launch) {
    if (!options.quiet) fmt::print(stderr, "via run: {}\n", mpi_launch_summary(launch));
    fflush(stderr);
}

Result<int> run_between_hosts_of_lab(const RunOptions& options, MpiLaunch launch) {
    const SignalGuard guard;  // a lab that was made is taken down again
    const auto explained = [&](std::string name, unsigned hosts, unsigned links, bool fewer) {
        launch.lab = {std::move(name), child::own_folder() + "/via", hosts, links, fewer};
        return mpi_command(launch);
    };
    if (options.explain) {
        const std::string name = options.lab->empty() ? "lab" : *options.lab;
        lab::LabOptions there;  // as one would be made
        there.links = options.links.value_or(there.links);
        there.hosts = options.lab_hosts.value_or(there.hosts);
        if (const auto found = lab::Lab::find(name)) there = found.value().options();
        const unsigned links = options.links.value_or(there.links);
        const MpiCommand command =
            explained(name, options.lab_hosts.value_or(there.hosts), links, links < there.links);
        fmt::print("via lab run --name {} a -- env {}\n", name, shell_text(command));
        return status_good;
    }
    auto lab = lab_for(options);
    if (!lab) return std::move(lab).error();
    const lab::LabOptions& there = lab.value().options();
    const unsigned links = options.links.value_or(there.links);
    const MpiCommand command =
        explained(there.name, options.lab_hosts.value_or(there.hosts), links, links < there.links);
    say(options, launch);
    return run_in_lab(command, lab.value());
}

Result<int> run(const RunOptions& options) {
    auto launch = plan_launch(options);
    if (!launch) return std::move(launch).error();
    if (options.lab) return run_between_hosts_of_lab(options, std::move(launch).value());
    const MpiCommand command = mpi_command(launch.value());
    if (options.explain) {
        fmt::print("{}\n", shell_text(command));
        return status_good;
    }
    say(options, launch.value());
    // In this process's place: signals, input and the exit status need no go-between.
    return std::move(execute(command)).error();
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
    auto options = std::make_shared<RunOptions>();
    CLI::App* command = app.add_subcommand(
        "run", "Run an MPI program over Viaduct (with Open MPI): via run -n 2 ./program ...");
    command->add_option("-n,--np", options->ranks, "How many ranks (default: one a core or host)")
        ->check(CLI::Range(1U, 65536U));
    auto* hosts =
        command->add_option("--hosts", options->hosts, "Where: one:2,two:2 (default: this host)");
    // A flag takes its value by "=" only, so that the program may follow.
    auto lab_name = std::make_shared<std::string>();
    auto* lab = command->add_flag("--lab", *lab_name,
                                  "Ranks in hosts of a lab: --lab=NAME if it is up, else one made "
                                  "for this run");
    lab->excludes(hosts);
    command->add_option("--links", options->links, "How many links of the lab to use")
        ->check(CLI::Range(1U, lab::most_links))
        ->needs(lab);
    command->add_option("--lab-hosts", options->lab_hosts, "How many hosts of the lab")
        ->check(CLI::Range(2U, lab::most_hosts))
        ->needs(lab);
    command
        ->add_option(
            "--over", options->over,
            "What carries the messages: via, via by libfabric (ofi), or for comparison vader "
            "or tcp")
        ->capture_default_str();
    command->add_option("--mca", options->settings, "A parameter of Open MPI, NAME=VALUE")
        ->allow_extra_args(false);
    command->add_flag("--explain", options->explain, "Only print the command that would be run");
    command->add_flag("-q,--quiet", options->quiet, "Do not say what was set");
    // What follows the program's name belongs to the program.
    command->prefix_command();
    command->callback([options, lab_name, lab, command, &status] {
        if (lab->count() != 0) options->lab = *lab_name == "true" ? std::string() : *lab_name;
        options->program = command->remaining();
        if (!options->program.empty() && options->program.front() == "--")
            options->program.erase(options->program.begin());
        const auto ended = run(*options);
        status = ended ? ended.value() : report_failure(ended.error());
    });
}

}  // namespace via::tool
