// SPDX-License-Identifier: BSD-3-Clause
// viad, the kernel agent: options, signals, and the agent's loop.
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "ka/agent.hpp"
#include "ka/agent_socket.hpp"

namespace {

using via::base::LogLevel;

constexpr int usage_error = 2;

struct Options {
    bool on_demand = false;
    std::string socket;
};

void print_help() {
    std::puts(
        "usage: viad [--on-demand | --foreground] [--socket ADDRESS]\n"
        "\n"
        "The kernel agent of Viaduct: connections, registered memory, shareable memory.\n"
        "Processes that need it start it by themselves; run it by hand or as a service to have\n"
        "one for all users of the host.\n"
        "\n"
        "  --foreground      serve until SIGTERM or SIGINT (the default); as root for all users,\n"
        "                    at @viaduct/system\n"
        "  --on-demand       serve one user, end when nobody has needed it for\n"
        "                    VIA_AGENT_IDLE_SECONDS\n"
        "  --socket ADDRESS  listen at a path, or at @NAME in the abstract namespace\n"
        "  --version         print the version\n"
        "  --help            print this\n"
        "\n"
        "Settings: VIA_AGENT_SOCKET, VIA_AGENT_IDLE_SECONDS, VIA_KMEM_ARENA_BYTES,\n"
        "VIA_KMEM_HUGE_PAGES, VIA_NET_PORT, VIA_NET_KEY_FILE, VIA_NET_KEY, VIA_LOG.\n"
        "Manual: viad(8).");
}

[[noreturn]] void refuse(std::string_view why) {
    std::fprintf(stderr, "viad: %.*s; try viad --help\n", static_cast<int>(why.size()), why.data());
    std::exit(usage_error);
}

Options read_options(int count, char** arguments) {
    Options options;
    bool foreground = false;
    for (int i = 1; i < count; ++i) {
        const std::string_view argument = arguments[i];
        if (argument == "--help") {
            print_help();
            std::exit(0);
        } else if (argument == "--version") {
            std::puts("viad " VIA_VERSION);
            std::exit(0);
        } else if (argument == "--on-demand") {
            options.on_demand = true;
        } else if (argument == "--foreground") {
            foreground = true;
        } else if (argument == "--socket") {
            if (++i == count) refuse("--socket needs an address");
            options.socket = arguments[i];
        } else if (argument.starts_with("--socket=")) {
            options.socket = argument.substr(std::string_view("--socket=").size());
        } else {
            refuse("unknown option '" + std::string(argument) + "'");
        }
    }
    if (foreground && options.on_demand) refuse("--on-demand and --foreground exclude each other");
    if (options.socket.empty())
        options.socket = via::base::Settings::get().text("VIA_AGENT_SOCKET");
    if (options.socket.empty())
        options.socket = geteuid() == 0 && !options.on_demand
                             ? via::ka::system_agent_socket()
                             : via::ka::user_agent_socket(geteuid());
    return options;
}

bool given(const via::base::Settings& settings, std::string_view name) {
    for (const via::base::SettingValue& value : settings.values())
        if (value.declaration->name == name)
            return value.origin != via::base::SettingOrigin::Default;
    return false;
}

/// Each process costs descriptors; take all that we are allowed.
void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/// What the process that started us had for itself: it may be pinned to one core.
void shed_inheritance() {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        CPU_SET(cpu, &all);
    sched_setaffinity(0, sizeof all, &all);
}

via::ka::Agent* running_agent = nullptr;

void stop_agent(int) {
    running_agent->stop();
}

void end_on_signals(via::ka::Agent& agent) {
    running_agent = &agent;
    struct sigaction action {};
    action.sa_handler = stop_agent;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

}  // namespace

int main(int count, char** arguments) {
    const Options options = read_options(count, arguments);
    const via::base::Settings& settings = via::base::Settings::get();
    // In the foreground somebody looks, so it says what it does unless told otherwise.
    if (!options.on_demand && !given(settings, "VIA_LOG")) via::base::set_log_level(LogLevel::Info);
    raise_descriptor_limit();
    if (options.on_demand) shed_inheritance();

    via::ka::AgentOptions agent_options;
    agent_options.socket = options.socket;
    agent_options.version = VIA_VERSION;
    agent_options.on_demand = options.on_demand;
    agent_options.idle_seconds = settings.number("VIA_AGENT_IDLE_SECONDS");
    agent_options.kmem.arena_bytes = settings.number("VIA_KMEM_ARENA_BYTES");
    agent_options.kmem.huge_pages = settings.text("VIA_KMEM_HUGE_PAGES") == "auto";
    agent_options.net_port = static_cast<std::uint16_t>(settings.number("VIA_NET_PORT"));
    agent_options.net_key_file = settings.text("VIA_NET_KEY_FILE");
    agent_options.net_key = settings.text("VIA_NET_KEY");
    auto agent = via::ka::Agent::create(agent_options);
    if (!agent) {
        // Who lost the race for the socket ends quietly: the winner serves.
        if (options.on_demand) return 0;
        via::base::log(LogLevel::Error, "viad cannot start: " + agent.error().sentence +
                                            " (does another kernel agent run there?)");
        return 1;
    }
    end_on_signals(*agent.value());
    via::base::log(
        LogLevel::Info,
        "viad " VIA_VERSION " serves " +
            (geteuid() == 0 ? std::string("all users") : "user " + std::to_string(geteuid())) +
            " at " + options.socket + (options.on_demand ? " until nobody needs it" : ""));
    if (auto served = agent.value()->run(); !served) {
        via::base::log(LogLevel::Error, "viad ends: " + served.error().sentence);
        return 1;
    }
    via::base::log(LogLevel::Info, "viad has ended");
    return 0;
}
