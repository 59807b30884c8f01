// SPDX-License-Identifier: BSD-3-Clause
#include "measurement.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <via/simulation.hpp>

#include "ka/client.hpp"
#include "lab/lab.hpp"
#include "lab/names.hpp"
#include "sim/experiment/cluster.hpp"
#include "size_list.hpp"
#include "supervisor.hpp"

namespace via::tool {
namespace {

using base::Result;

/// What two sides that were started separately meet at if nothing else is said.
std::string usual_discriminator(Program program) {
    return fmt::format("via-{}", to_text(program));
}

/// Nobody else's: 16 bytes, which every device can carry.
std::string fresh_discriminator() {
    std::uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = static_cast<std::uint64_t>(base::monotonic_now());
    return fmt::format("via-{:012x}", random & 0xFFFF'FFFF'FFFFU);
}

template <class Kind>
Kind kind_from(const std::string& text, std::initializer_list<Kind> kinds) {
    // The command line has let only known words through.
    for (const Kind kind : kinds)
        if (to_text(kind) == text) return kind;
    return *kinds.begin();
}

TestTerms test_terms(const MeasurementOptions& options, Program program, std::uint64_t bytes) {
    TestTerms terms;
    terms.program = program;
    terms.memory = kind_from(options.memory, {MemoryKind::Heap, MemoryKind::Kmem});
    terms.bytes = bytes;
    if (program == Program::Pingpong) return terms;
    terms.window = options.window.value_or(default_window(bytes));
    terms.buffers = options.buffers.value_or(default_buffers(bytes, terms.window));
    // Contents can only be written and checked while no other message is under way in the buffer.
    if (options.check || options.fresh) terms.buffers = terms.window;
    terms.buffers = std::min(terms.buffers, terms.window);
    return terms;
}

base::Error misuse(std::string sentence) {
    return {base::Code::InvalidArgument, std::move(sentence)};
}

std::string device_of(const MeasurementOptions& options) {
    if (!options.device.empty()) return options.device;
    return options.lab ? "net0" : "shm0";
}

bool is_simulated(const std::string& device) {
    return device == "lanai4" || device == "lanai9";
}

Result<void> plan_simulation(const MeasurementOptions& options, SessionPlan& plan) {
    if (!is_simulated(device_of(options))) {
        if (options.machine || options.firmware || options.clock)
            return misuse(
                "--machine, --firmware and --clock are for the simulated NICs lanai4 and "
                "lanai9");
        return {};
    }
    if (options.lab) return misuse("a simulated NIC has hosts of its own; leave --lab out");
    if (options.server || options.connect)
        return misuse(
            "both hosts of a simulated NIC are in one process; leave --server and "
            "--connect out");
    if (options.clock && !(*options.clock >= 1 && *options.clock <= 1000))
        return misuse(fmt::format("--clock is {} MHz; it must be from 1 to 1000", *options.clock));
    plan.simulated =
        SimulatedHosts{options.machine.value_or(sim::machine_of_the_paper(device_of(options))),
                       options.firmware.value_or("myvia"), options.clock.value_or(0)};
    plan.host = "a";  // the first host is the server
    return {};
}

/// Berkeley VIA's programs: 1000 round trips, 2000 messages. The same every time, so once will do.
void plan_as_in_the_paper(const MeasurementOptions& options, Program program, TestPlan& test) {
    constexpr std::uint64_t round_trips = 1000;
    constexpr std::uint64_t messages = 2000;
    // What takes long to simulate and says nothing new.
    constexpr std::uint64_t most_bytes_moved = std::uint64_t{64} << 20;
    const std::uint64_t most = std::max<std::uint64_t>(
        20, most_bytes_moved / std::max<std::uint64_t>(1, test.terms.bytes));
    test.repetitions = options.repetitions.value_or(1);
    if (!test.iterations)
        test.iterations = std::min(program == Program::Pingpong ? round_trips : messages, most);
    if (!test.warmup) test.warmup = 4;
    if (!test.batch) test.batch = 1;  // its clock costs nothing to read
}

/// Both sides on simulated hosts, which take turns in one process.
Result<void> run_simulated(const SessionPlan& plan, SideReporter& reporter) {
    Result<void> served;
    Result<void> measured;
    const auto ran = via::simulate(
        {plan.device, plan.simulated->machine, plan.simulated->firmware, plan.simulated->clock_mhz},
        {[&] { served = run_server(plan, reporter); },
         [&] { measured = run_client(plan, reporter); }});
    if (!ran)
        return Result<void>(base::Code::InvalidArgument,
                            "simulating the hosts: " + ran.error().sentence);
    if (!measured) return measured;
    return served;
}

/// The lab of that name if it is up; else one that goes with the object.
Result<lab::Lab> lab_for(const MeasurementOptions& options) {
    const std::string name = options.lab->empty() ? "lab" : *options.lab;
    const std::vector<std::string> present = lab::Lab::present();
    if (std::find(present.begin(), present.end(), name) == present.end()) {
        lab::LabOptions wanted;
        wanted.name = *options.lab;
        wanted.links = options.links.value_or(wanted.links);
        wanted.mtu = options.mtu.value_or(wanted.mtu);
        return lab::Lab::up(wanted);
    }
    auto found = lab::Lab::find(name);
    if (!found) return std::move(found).error();
    const lab::LabOptions& there = found.value().options();
    if (options.links.value_or(1) > there.links)
        return misuse(fmt::format("the lab '{}' is up and has {} links, not {}", name, there.links,
                                  *options.links));
    if (options.mtu && *options.mtu != there.mtu)
        return misuse(fmt::format(
            "the lab '{}' is up and its links have an MTU of {}; take it down or leave --mtu out",
            name, there.mtu));
    return found;
}

/// What makes both sides use only so many links of a lab that has more.
std::string interfaces_of_links(unsigned links) {
    std::string names;
    for (unsigned link = 0; link < links; ++link)
        names += (link == 0 ? "" : ",") + lab::device_name(link);
    return names;
}

std::vector<SideSetting> settings_of(const MeasurementOptions& options) {
    std::vector<SideSetting> settings;
    if (options.policy) settings.push_back({"VIA_NET_POLICY", *options.policy});
    if (options.raw) settings.push_back({"VIA_NET_RAW", *options.raw});
    if (options.secure) settings.push_back({"VIA_NET_SECURE", "1"});
    return settings;
}

/// In a child, before it uses Viaduct: settings are read once.
Result<void> prepare_side(const SessionPlan& plan, const lab::Lab* lab, std::string_view host) {
    for (const SideSetting& setting : plan.settings)
        if (setenv(setting.name.c_str(), setting.value.c_str(), 1) != 0)
            return base::system_error(errno, "setting " + setting.name);
    if (lab == nullptr) return {};
    return lab->enter(host);
}

/// Between hosts a client needs the server's agent, which may not run yet: the server starts it and
/// lets the client go.
class StartSignal {
  public:
    static Result<StartSignal> make() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return base::system_error(errno, "creating a pipe");
        return StartSignal(base::UniqueFd(ends[0]), base::UniqueFd(ends[1]));
    }
    Result<void> give(base::Nanoseconds patience) const {
        auto agent = ka::AgentClient::attach({}, base::Deadline::after(patience));
        if (!agent) return std::move(agent).error();
        if (write(writing_.get(), "", 1) != 1)
            return base::system_error(errno, "letting the client go");
        return {};
    }
    Result<void> await(base::Nanoseconds patience) const {
        pollfd wait{reading_.get(), POLLIN, 0};
        if (poll(&wait, 1, static_cast<int>(patience / 1'000'000)) == 1) return {};
        return {base::Code::Timeout, "the server's kernel agent did not start"};
    }

  private:
    StartSignal(base::UniqueFd reading, base::UniqueFd writing)
        : reading_(std::move(reading)), writing_(std::move(writing)) {}
    base::UniqueFd reading_;
    base::UniqueFd writing_;
};

}  // namespace

Result<void> run_in_lab(const SessionPlan& plan, const CpuPair& cpus, const lab::Lab& lab,
                        std::vector<Side> further, const SupervisorOptions& options,
                        const ClientRun& client) {
    auto signal = StartSignal::make();
    if (!signal) return std::move(signal).error();
    const auto serve = [&](SideReporter& reporter) -> Result<void> {
        reporter.stage("starting the kernel agent");
        if (auto prepared = prepare_side(plan, &lab, "b"); !prepared) return prepared;
        if (auto given = signal.value().give(plan.patience); !given) return given;
        return run_server(plan, reporter);
    };
    const auto measure = [&](SideReporter& reporter) -> Result<void> {
        reporter.stage("waiting for the server's kernel agent");
        if (auto prepared = prepare_side(plan, &lab, "a"); !prepared) return prepared;
        if (auto awaited = signal.value().await(plan.patience); !awaited) return awaited;
        return client(reporter);
    };
    further.push_back({"server", cpus.second, serve});
    further.push_back({"client", cpus.first, measure});
    return run_sides(further, options);
}

void add_measurement_options(CLI::App& command, Program program, MeasurementOptions& options) {
    const bool pingpong = program == Program::Pingpong;
    if (!pingpong) options.bytes = "4096";
    command.add_option(
        "--device", options.device,
        "The NIC to measure: shm0 (inside a host), net0 (between hosts), auto (either), "
        "or a simulated one: lanai4, lanai9 (default: shm0, with --lab net0)");
    command.add_option("--machine", options.machine,
                       "lanai4, lanai9: the simulated machine (default: the paper's)");
    command.add_option("--firmware", options.firmware,
                       "lanai4, lanai9: myvia, bvia or gm (default: myvia)");
    command.add_option("--clock", options.clock, "lanai4, lanai9: the NIC's clock in MHz");
    command
        .add_option("--bytes,--sizes,-b", options.bytes,
                    "Message size: 8, 4k, a list 8,64,4k or a range 8:4m (doubling), 8:4m:4")
        ->capture_default_str();
    command
        .add_option("--iterations,-n", options.iterations,
                    pingpong
                        ? "Round trips in a repetition (default: as many as fit into --seconds)"
                        : "Messages in a repetition (default: as many as fit into --seconds)")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
    command.add_option("--warmup", options.warmup, "Untimed ones before the first repetition")
        ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
    command
        .add_option("--repetitions,-r", options.repetitions,
                    pingpong ? "How often to measure each size (default: 5; 1 if simulated)"
                             : "How often to measure each size (default: 11; 1 if simulated)")
        ->check(CLI::Range(1U, 10000U));
    command
        .add_option("--seconds", options.seconds, "Time for each size if --iterations is not given")
        ->check(CLI::Range(0.001, 86400.0))
        ->capture_default_str();
    command.add_option("--memory", options.memory, "Where messages lie: heap or kmem")
        ->check(CLI::IsMember({"heap", "kmem"}))
        ->capture_default_str();
    command.add_option("--wait", options.wait, "poll for completions or block until they come")
        ->check(CLI::IsMember({"poll", "block"}))
        ->capture_default_str();
    command.add_option("--reliability", options.reliability, "unreliable, delivery or reception")
        ->check(CLI::IsMember({"unreliable", "delivery", "reception"}))
        ->capture_default_str();
    command.add_option("--operation", options.operation, "send, rdma-write or rdma-read")
        ->check(CLI::IsMember({"send", "rdma-write", "rdma-read"}))
        ->capture_default_str();
    command.add_flag("--cq", options.completion_queue,
                     "Learn of completions through a completion queue");
    command
        .add_option("--idle-vis", options.idle_vis,
                    "Further connected VIs on the same completion queue (implies --cq)")
        ->check(CLI::Range(0U, most_idle_vis));
    auto* check =
        command.add_flag("--check", options.check, "Verify every byte (and measure that too)");
    command
        .add_flag("--fresh", options.fresh,
                  "Write each message anew before it is sent (and measure that too)")
        ->excludes(check);
    if (pingpong) {
        command
            .add_option("--batch", options.batch,
                        "Round trips between two looks at the clock (default: 16 for small ones)")
            ->check(CLI::Range(1U, 1U << 20));
        command.add_flag("--histogram", options.histogram, "Show how the times spread");
    } else {
        command
            .add_option("--window,-w", options.window, "Receives posted ahead (default: by size)")
            ->check(CLI::Range(1U, most_window));
        command
            .add_option("--buffers", options.buffers,
                        "Buffers on each side, used in turn (default: as fill 256k)")
            ->check(CLI::Range(1U, most_window));
    }
    command.add_option("--cpus", options.cpus,
                       "Processors to pin client and server to, such as 0,1, or none");
    auto* server = command
                       .add_option("--server", options.server,
                                   "Only serve: wait for one client (at this DISCRIMINATOR)")
                       ->expected(0, 1)
                       ->type_name("[DISCRIMINATOR]");
    auto* connect = command
                        .add_option("--connect", options.connect,
                                    "Only be the client of the server at NAME[:DISCRIMINATOR]")
                        ->type_name("NAME[:DISCRIMINATOR]");
    server->excludes(connect);
    command
        .add_option("--retry", options.retry,
                    "Seconds to come again while the server's host does not answer")
        ->check(CLI::Range(0.0, 86400.0))
        ->needs(connect)
        ->capture_default_str();
    auto* lab = command
                    .add_option("--lab", options.lab,
                                "Both sides in hosts of a lab: of that NAME if it is up, else of "
                                "one that is made and removed (root)")
                    ->expected(0, 1)
                    ->type_name("[NAME]")
                    ->excludes(server)
                    ->excludes(connect);
    command.add_option("--links", options.links, "How many links of the lab to use (default: all)")
        ->check(CLI::Range(1U, lab::most_links))
        ->needs(lab);
    command.add_option("--mtu", options.mtu, "Bytes a packet on a link of the lab may have")
        ->check(CLI::Range(1280U, 65535U))
        ->needs(lab);
    command
        .add_option("--policy", options.policy,
                    "net0: how messages spread over links; VIA_NET_POLICY of the sides")
        ->check(CLI::IsMember({"adaptive", "dynamic", "oneway", "static"}));
    command.add_flag("--secure", options.secure,
                     "net0: encrypt every packet; VIA_NET_SECURE of the sides");
    command
        .add_option("--raw", options.raw,
                    "net0: short messages below IP: off, ring, xdp or auto; VIA_NET_RAW of the "
                    "sides")
        ->check(CLI::IsMember({"off", "ring", "xdp", "auto"}));
    command.add_option("--timeout", options.timeout, "Seconds to wait for the other side")
        ->check(CLI::Range(0.1, 86400.0))
        ->capture_default_str();
    command.add_flag("--json", options.json, "Print JSON");
}

std::string split_server(const std::string& text, std::string& discriminator) {
    std::size_t end = text.find(':');
    std::string name = text.substr(0, end);
    if (text.starts_with('[')) {
        end = text.find(']');
        if (end == std::string::npos) return {};
        name = text.substr(1, end - 1);
        if (++end == text.size()) return name;
        if (text[end] != ':') return {};
    } else if (end != text.rfind(':')) {
        return text;  // an IPv6 address without more
    }
    if (end != std::string::npos) discriminator = text.substr(end + 1);
    return name;
}

Result<SessionPlan> make_plan(const MeasurementOptions& options, Program program) {
    SessionPlan plan;
    plan.device = device_of(options);
    plan.settings = settings_of(options);
    if (auto sound = plan_simulation(options, plan); !sound) return std::move(sound).error();
    plan.patience = static_cast<base::Nanoseconds>(options.timeout * 1e9);
    plan.histogram = options.histogram || options.json;
    plan.terms.reliability =
        kind_from(options.reliability,
                  {Reliability::Delivery, Reliability::Unreliable, Reliability::Reception});
    plan.terms.wait = kind_from(options.wait, {WaitKind::Poll, WaitKind::Block});
    plan.terms.operation =
        kind_from(options.operation, {Operation::Send, Operation::RdmaWrite, Operation::RdmaRead});
    plan.terms.completion_queue = options.completion_queue || options.idle_vis.has_value();
    plan.terms.idle_vis = options.idle_vis.value_or(0);
    plan.terms.check = options.check;
    plan.terms.fresh = options.fresh;
    if (plan.terms.operation == Operation::RdmaRead &&
        plan.terms.reliability == Reliability::Unreliable)
        return misuse("there is no RDMA read without reliability; give --reliability delivery");
    if ((options.check || options.fresh) && options.buffers)
        return misuse(
            "--check and --fresh need a buffer for each message under way; leave --buffers out");
    if (options.fresh && plan.terms.operation != Operation::Send)
        return misuse("--fresh is for --operation send");

    auto sizes = parse_size_list(options.bytes);
    if (!sizes) return std::move(sizes).error();
    for (const std::uint64_t bytes : sizes.value()) {
        if (bytes > most_bytes - 1)
            return misuse(fmt::format("{} bytes are more than a descriptor can hold ({})", bytes,
                                      most_bytes - 1));
        if (bytes == 0 && plan.terms.operation != Operation::Send)
            return misuse("an RDMA operation needs at least one byte");
        TestPlan test;
        test.terms = test_terms(options, program, bytes);
        test.iterations = options.iterations;
        test.warmup = options.warmup;
        test.batch = options.batch;
        // A stream has one value a repetition, so there must be some for a median.
        test.repetitions = options.repetitions.value_or(program == Program::Pingpong ? 5 : 11);
        test.seconds = options.seconds;
        if (plan.simulated) plan_as_in_the_paper(options, program, test);
        plan.tests.push_back(test);
    }

    plan.discriminator = fresh_discriminator();
    if (options.server)
        plan.discriminator =
            options.server->empty() ? usual_discriminator(program) : *options.server;
    if (options.connect) {
        plan.discriminator = usual_discriminator(program);
        plan.host = split_server(*options.connect, plan.discriminator);
        plan.retry = static_cast<base::Nanoseconds>(options.retry * 1e9);
        if (plan.host->empty() || plan.discriminator.empty())
            return misuse(fmt::format(
                "'{}' names no server; write --connect NAME or --connect NAME:DISCRIMINATOR, "
                "with an IPv6 address as in [fe80::1%eth0]:DISCRIMINATOR",
                *options.connect));
    }
    return plan;
}

Result<CpuPair> cpus_for(const MeasurementOptions& options) {
    const std::vector<Processor> processors = usable_processors();
    return options.cpus ? parse_cpus(*options.cpus, processors) : choose_cpus(processors);
}

Result<void> measure_here(SessionPlan plan, const CpuPair& cpus, const ResultHandler& on_result) {
    SupervisorOptions options;
    options.quiet_limit = plan.patience;
    options.on_report = [&](const nlohmann::json& report) {
        if (report.contains("result")) on_result(report["result"]);
    };
    if (plan.simulated)
        return run_sides({{"simulation", std::nullopt,
                           [&](SideReporter& reporter) { return run_simulated(plan, reporter); }}},
                         options);
    const auto side = [&](Result<void> (*run)(const SessionPlan&, SideReporter&)) {
        return [&plan, run](SideReporter& reporter) -> Result<void> {
            if (auto prepared = prepare_side(plan, nullptr, {}); !prepared) return prepared;
            return run(plan, reporter);
        };
    };
    return run_sides(
        {{"server", cpus.second, side(run_server)}, {"client", cpus.first, side(run_client)}},
        options);
}

Result<std::vector<nlohmann::json>> measure(const MeasurementOptions& options, Program program) {
    auto plan = make_plan(options, program);
    if (!plan) return std::move(plan).error();
    auto cpus = cpus_for(options);
    if (!cpus) return std::move(cpus).error();
    std::vector<nlohmann::json> results;
    const auto keep = [&](const nlohmann::json& result) {
        results.push_back(result);
        if (plan.value().simulated) return;
        auto& used = results.back()["cpus"] = nlohmann::json::array();
        for (const auto& cpu : {cpus.value().first, cpus.value().second})
            if (cpu) used.push_back(*cpu);
    };
    Result<void> outcome;
    if (options.lab) {
        const SignalGuard guard;  // a lab that was made is taken down again
        auto lab = lab_for(options);
        if (!lab) return std::move(lab).error();
        plan.value().host = "b";
        if (options.links)
            plan.value().settings.push_back(
                {"VIA_NET_INTERFACES", interfaces_of_links(*options.links)});
        SupervisorOptions watch;
        watch.quiet_limit = plan.value().patience;
        watch.on_report = [&](const nlohmann::json& report) {
            if (!report.contains("result")) return;
            keep(report["result"]);
            results.back()["lab"] = {{"name", lab.value().options().name},
                                     {"links", options.links.value_or(lab.value().options().links)},
                                     {"mtu", lab.value().options().mtu}};
        };
        outcome =
            run_in_lab(plan.value(), cpus.value(), lab.value(), {}, watch,
                       [&](SideReporter& reporter) { return run_client(plan.value(), reporter); });
    } else if (!options.server && !options.connect) {
        outcome = measure_here(plan.value(), cpus.value(), keep);
    } else {
        SupervisorOptions watch;
        // The side itself gives up first, because it can say more.
        watch.quiet_limit = plan.value().patience + 5'000'000'000;
        watch.on_report = [&](const nlohmann::json& report) {
            if (report.contains("result")) keep(report["result"]);
        };
        const bool serves = options.server.has_value();
        const Side side{serves ? "server" : "client",
                        serves ? cpus.value().second : cpus.value().first,
                        [&](SideReporter& reporter) -> Result<void> {
                            auto prepared = prepare_side(plan.value(), nullptr, {});
                            if (!prepared) return prepared;
                            return serves ? run_server(plan.value(), reporter)
                                          : run_client(plan.value(), reporter);
                        }};
        outcome = run_sides({side}, watch);
    }
    if (!outcome) return std::move(outcome).error();
    return results;
}

nlohmann::json joined(const std::vector<nlohmann::json>& results) {
    if (results.size() == 1) return results.front();
    return {{"results", results}};
}

std::string headline(const MeasurementOptions& options, Program program) {
    std::string line =
        fmt::format("{} on {}: {} from {} memory, {} reliability, {}", to_text(program),
                    device_of(options), options.operation, options.memory, options.reliability,
                    options.wait == "poll" ? "polling" : "blocking");
    if (options.completion_queue || options.idle_vis)
        line += fmt::format(", through a completion queue with {} further VIs",
                            options.idle_vis.value_or(0));
    if (options.lab)
        line += fmt::format(", between hosts of a lab{}",
                            options.links ? fmt::format(" by {} links", *options.links) : "");
    for (const SideSetting& setting : settings_of(options))
        line += fmt::format(", {}={}", setting.name, setting.value);
    if (options.check) line += ", every byte checked";
    if (options.fresh) line += ", each message written anew";
    if (is_simulated(device_of(options)))
        line +=
            fmt::format(", simulated: {} in {}", options.firmware.value_or("myvia"),
                        options.machine.value_or(sim::machine_of_the_paper(device_of(options))));
    else if (const auto cpus = cpus_for(options))
        line += ", " + describe(cpus.value());
    return line;
}

}  // namespace via::tool
