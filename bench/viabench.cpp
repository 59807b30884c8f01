// SPDX-License-Identifier: BSD-3-Clause
// Measures Viaduct beside its peers and beside the bare machine, in one run.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "mpi_plan.hpp"
#include "net/lab_mpi.hpp"
#include "net/net_plan.hpp"
#include "plot.hpp"
#include "process.hpp"
#include "quick_plan.hpp"
#include "report.hpp"
#include "runner.hpp"
#include "scenes.hpp"
#include "shm_plan.hpp"
#include "sim_plan.hpp"
#include "via/child_program.hpp"
#include "via/own_libraries.hpp"
#include "via/report_page.hpp"
#include "via/supervisor.hpp"
#include "via/text_table.hpp"

namespace {

using namespace via;
using namespace via::bench;

constexpr Repetitions full_repetitions{7, 3, 0, 0};

struct Options {
    std::string results = "results";
    std::string via;
    std::string cpus;
    std::vector<std::string> rows;
    std::string only;  ///< the name of a group; empty: all
    std::size_t repetitions = 0;
    bool quick = false;
    bool list = false;
    bool no_plots = false;
    bool check = false;
};

int complain(const base::Error& error) {
    fmt::print(stderr, "viabench: {}\n", error.sentence);
    return 2;
}

base::Result<bare::CorePair> chosen_cores(const std::string& text) {
    if (text.empty()) return bare::two_cores();
    bare::CorePair cores;
    int used = 0;
    if (std::sscanf(text.c_str(), "%d,%d%n", &cores.first, &cores.second, &used) != 2 ||
        static_cast<std::size_t>(used) != text.size() || cores.first < 0 || cores.second < 0 ||
        cores.first == cores.second) {
        return {base::Code::InvalidArgument,
                "--cpus " + text + ": give two different processors, such as 0,1"};
    }
    return cores;
}

std::vector<std::string> via_settings() {
    std::vector<std::string> found;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        if (std::string_view(*entry).starts_with("VIA_")) found.emplace_back(*entry);
    }
    return found;
}

void list_rows(const Plan& plan) {
    tool::TextTable table;
    table.add_column("row", tool::Align::Left);
    table.add_column("measure", tool::Align::Left);
    for (const Row& row : plan.rows)
        table.add_row({row.name, row.title});
    fmt::print("{}", table.draw());
}

bool wants(const Options& options, Group group) {
    if (options.rows.empty()) return options.only.empty() || options.only == group_name(group);
    const auto group_of = [](const std::string& row) {
        if (row.starts_with(net_prefix)) return Group::BetweenHosts;
        if (row.starts_with(sim_prefix)) return Group::Simulator;
        return row.starts_with(mpi_prefix) ? Group::Mpi : Group::InHost;
    };
    return std::any_of(options.rows.begin(), options.rows.end(),
                       [&](const std::string& row) { return group_of(row) == group; });
}

/// Where the build puts libvia-fi.so.
std::string provider_folder(const std::string& programs) {
    return std::filesystem::path(programs + "/../lib/libfabric").lexically_normal().string();
}

std::string no_provider(const std::string& programs) {
    if (std::filesystem::exists(provider_folder(programs) + "/libvia-fi.so")) return {};
    return "the provider is not built (install libfabric-dev)";
}

/// The labs go with the returned object. Where there can be none the rows say why.
std::optional<NetLabs> make_labs(std::string& missing) {
    auto labs = NetLabs::up();
    if (labs) return std::move(labs).value();
    missing = labs.error().sentence;
    return std::nullopt;
}

base::Result<Plan> chosen_plan(PlanBuilder& builder, const Options& options) {
    Plan plan = builder.take();
    if (!options.rows.empty()) return only_rows(plan, options.rows);
    if (options.quick) plan = only_quick(plan);
    for (const Group group : all_groups) {
        if (options.only == group_name(group)) return only_group(plan, group);
    }
    return plan;
}

/// For --check: every row of the law measured and held.
bool law_holds(const Plan& plan) {
    for (const Row& row : plan.rows) {
        if (!row.must) continue;
        const Verdict verdict = judge(row, plan.pairs).verdict;
        if (verdict != Verdict::Pass && verdict != Verdict::Aim) return false;
    }
    return true;
}

int measure(const Options& options) {
    const base::Nanoseconds begin = base::monotonic_now();
    auto cores = chosen_cores(options.cpus);
    if (!cores) return complain(cores.error());
    const std::string folder = own_folder();
    const std::string via_path = options.via.empty() ? folder + "/via" : options.via;

    std::error_code failure;
    const std::filesystem::path results = std::filesystem::absolute(options.results, failure);
    if (!options.list) std::filesystem::create_directories(results, failure);
    if (failure) {
        return complain({base::Code::System,
                         "make the results folder " + options.results + ": " + failure.message()});
    }
    RunFacts facts;
    facts.machine = this_machine();
    facts.cores = cores.value();
    facts.settings = via_settings();

    const std::string agent_socket = fmt::format("@viaduct/bench/{}", ::getpid());
    Contestants contestants{ViaTool(via_path, folder, cores.value(), agent_socket),
                            Ucx(cores.value()),
                            {},
                            cores.value()};
    for (const MpiKind kind : {MpiKind::OpenMpi, MpiKind::Mpich}) {
        Mpi& mpi = contestants.mpis.emplace_back(kind, results.string(), cores.value());
        if (!options.list) mpi.compile(VIA_BENCH_MPI_SOURCES);
    }
    const tool::SignalGuard guard;  // labs are taken down whatever comes
    std::string no_labs = "no labs were made";
    std::optional<NetLabs> labs;
    if (!options.list && (wants(options, Group::BetweenHosts) || wants(options, Group::Mpi)))
        labs = make_labs(no_labs);
    if (!options.list && !labs && wants(options, Group::BetweenHosts))
        fmt::print(stderr, "note: nothing is measured between hosts: {}\n", no_labs);
    const Mpi between_hosts =
        mpi_between_hosts(contestants.mpis.front(), "Open MPI over TCP",
                          labs ? labs->fast.get() : nullptr, via_path, tcp_transport(1));
    PlanBuilder builder;
    add_shm_rows(builder, contestants);
    const NetContestants hosts{contestants.via, between_hosts, cores.value(),
                               labs ? &*labs : nullptr, labs ? std::string() : no_labs};
    add_net_rows(builder, hosts);
    const auto components =
        options.list ? base::Result<std::string>(base::Code::NotFound, "not looked for")
                     : tool::find_component_path(tool::child::find_program("mpirun.openmpi"));
    const MpiContestants mpis{contestants.mpis[0],
                              contestants.mpis[1],
                              via_path,
                              folder,
                              components ? components.value() : std::string(),
                              provider_folder(folder),
                              agent_socket,
                              cores.value(),
                              components ? std::string() : components.error().sentence,
                              no_provider(folder),
                              labs ? &*labs : nullptr,
                              labs ? std::string() : no_labs};
    add_mpi_rows(builder, mpis);
    add_sim_rows(builder, folder);
    auto plan = chosen_plan(builder, options);
    if (!plan) return complain(plan.error());
    if (options.list) {
        list_rows(plan.value());
        return 0;
    }
    nlohmann::json links;
    nlohmann::json simulator;
    if (!options.no_plots && options.rows.empty()) {
        if (wants(options, Group::InHost)) add_shm_curves(plan.value(), contestants, options.quick);
        if (wants(options, Group::Mpi)) add_mpi_curves(plan.value(), mpis, options.quick);
        if (wants(options, Group::BetweenHosts)) {
            add_net_curves(plan.value(), hosts, options.quick);
            plan.value().scenes.push_back(
                links_over_time(contestants.via, hosts.missing, options.quick, links));
        }
        if (wants(options, Group::Simulator)) {
            plan.value().scenes.push_back(papers_beside_simulator(
                contestants.via, (results / "simulator").string(), simulator));
        }
    }
    facts.quick = options.quick;
    facts.repetitions = options.quick ? quick_repetitions : full_repetitions;
    if (options.repetitions != 0) facts.repetitions.pairs = options.repetitions;
    facts.versions = {{"via", contestants.via.version()}, {"UCX", contestants.ucx.version()}};
    for (const Mpi& mpi : contestants.mpis)
        facts.versions.emplace_back(mpi.name(), mpi.version());
    if (facts.machine.load > 0.5) {
        fmt::print(
            stderr,
            "note: {:.1f} processes ran on this machine on average in the last minute; other "
            "work makes all values worse and less sure\n",
            facts.machine.load);
    }

    const auto curves = run_plan(plan.value(), facts.repetitions,
                                 [] { return tool::SignalGuard::signal_received() != 0; });
    contestants.via.stop_agent();
    if (const int signal = tool::SignalGuard::signal_received(); signal != 0) {
        fmt::print(stderr, "\nviabench: broken off; nothing is written\n");
        return 128 + signal;
    }
    facts.seconds = static_cast<double>(base::monotonic_now() - begin) / 1e9;

    const std::string text = table_text(plan.value(), facts);
    fmt::print("{}", text);
    auto document = results_json(plan.value(), curves, facts);
    if (!links.is_null()) document["links"] = std::move(links);
    if (!simulator.is_null()) document["simulator"] = std::move(simulator);
    // Other programs' last words may be in any encoding.
    const std::string json_text =
        document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
    // What the page shows is what the file says.
    const auto report = tool::parse_report_text(json_text);
    if (!report) return complain(report.error());
    for (const auto& [name, content] :
         {std::pair{"bench.json", json_text + "\n"}, std::pair{"table.txt", text},
          std::pair{"report.html", tool::report_page(report.value())}}) {
        if (auto written = write_file((results / name).string(), content); !written) {
            return complain(written.error());
        }
    }
    for (const CurveResult& curve : curves) {
        if (!curve.problem.empty()) {
            fmt::print("plots: {} not measured: {}\n", curve.label, curve.problem);
        }
    }
    if (auto images = draw_plots(curves, results.string(), facts.machine.processor)) {
        for (const std::string& image : images.value())
            fmt::print("plot: {}\n", image);
    } else {
        fmt::print("{}\n", images.error().sentence);
    }
    const tool::ReportCount count = tool::count_rows(report.value());
    fmt::print("{} of {} demands pass, {} missed, {} not measured\nresults: {}\nreport:  {}\n",
               count.passed, count.demands, count.missed, count.not_measured,
               (results / "bench.json").string(), (results / "report.html").string());
    return options.check && !law_holds(plan.value()) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Measures Viaduct beside UCX, Open MPI, MPICH, libfabric, plain sockets and the bare "
        "machine.",
        "viabench");
    app.add_option("--results", options.results, "folder for the page, JSON, table and plots")
        ->capture_default_str();
    app.add_option("--row", options.rows, "only this row (repeatable; no plots then)");
    app.add_option(
           "--only", options.only,
           "only rows inside a host (shm), between hosts of a lab (net), of MPI (mpi) or of "
           "the simulator (sim)")
        ->check(CLI::IsMember({"shm", "net", "mpi", "sim"}));
    app.add_flag("--list", options.list, "print the names of all rows and stop");
    app.add_flag("--quick", options.quick,
                 "fewer rows, repetitions and sizes: a first look in under five minutes");
    app.add_option("--repetitions", options.repetitions, "how often each value is taken (7)")
        ->check(CLI::Range(1, 1000));
    app.add_flag("--no-plots", options.no_plots, "measure the table only");
    app.add_option("--cpus", options.cpus, "the two processors, such as 0,1 (two cores)");
    app.add_option("--via", options.via, "the program via (the one beside this program)");
    app.add_flag("--check", options.check, "exit code 1 unless every demand is measured and met");
    CLI11_PARSE(app, argc, argv);
    return measure(options);
}
