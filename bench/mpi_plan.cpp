// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_plan.hpp"

#include <fmt/format.h>

#include <utility>

#include "net/lab_mpi.hpp"
#include "via/mpi_launch.hpp"
#include "via_tool.hpp"

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

constexpr std::size_t kilobyte = 1024;
constexpr std::size_t megabyte = 1024 * 1024;
constexpr std::uint64_t fabric_milliseconds = 60'000;

/// All the ways by which the programs are run.
class Ways {
  public:
    explicit Ways(const MpiContestants& with)
        : with_(with),
          via(with.open_mpi.over("Open MPI over via", via_words(), in_host({}))
                  .without(with.no_component)
                  .without(with.missing)),
          fabric(with.open_mpi
                     .over("Open MPI over libfabric's via", via_words(tool::MpiTransport::Fabric),
                           in_host({}))
                     .without(with.missing)),
          vader(with.open_mpi.over("Open MPI over vader",
                                   words({"pml", "ob1", "btl", "vader,self"}), run)),
          vader_yielding(with.open_mpi.over(
              "Open MPI over vader, yielding",
              words({"pml", "ob1", "btl", "vader,self", "mpi_yield_when_idle", "1"}), run)),
          ucx(with.open_mpi.over(
              "Open MPI over UCX",
              words({"pml", "ucx", "pml_ucx_tls", "any", "pml_ucx_devices", "any"}), run)),
          usual(with.open_mpi.over("Open MPI", words({}), run)) {}

    /// Ours with further settings.
    [[nodiscard]] Mpi with_setting(const std::string& setting) const {
        return with_.open_mpi.over("Open MPI over via", via_words(), in_host({setting}))
            .without(with_.no_component)
            .without(with_.missing);
    }
    [[nodiscard]] Mpi between_hosts(const lab::Lab* lab, unsigned links) const {
        std::vector<std::string> settings = environment();
        settings.push_back(links == 1 ? "VIA_NET_INTERFACES=link0"
                                      : "VIA_NET_INTERFACES=link0,link1");
        return mpi_between_hosts(with_.open_mpi, "Open MPI over via", lab, with_.via,
                                 tool::mpi_transport_words(launch(tool::MpiTransport::Via)),
                                 settings)
            .without(with_.no_component)
            .without(with_.missing)
            .without(with_.no_labs);
    }
    [[nodiscard]] Mpi tcp(const lab::Lab* lab, unsigned links) const {
        return mpi_between_hosts(with_.open_mpi, "Open MPI over TCP", lab, with_.via,
                                 tcp_transport(links))
            .without(with_.no_labs);
    }
    [[nodiscard]] std::vector<std::string> environment() const {
        return {"FI_PROVIDER=via", "FI_PROVIDER_PATH=" + with_.provider,
                "VIA_AGENT_PROGRAM=" + with_.folder + "/viad"};
    }

  private:
    static std::vector<std::string> words(const std::vector<std::string>& parameters) {
        std::vector<std::string> all{"--oversubscribe"};
        for (std::size_t index = 0; index + 1 < parameters.size(); index += 2)
            all.insert(all.end(), {"--mca", parameters[index], parameters[index + 1]});
        return all;
    }
    [[nodiscard]] tool::MpiLaunch launch(tool::MpiTransport transport) const {
        tool::MpiLaunch wanted;
        wanted.transport = transport;
        wanted.component_path = with_.components;
        wanted.provider_folder = with_.provider;
        return wanted;
    }
    [[nodiscard]] std::vector<std::string> via_words(
        tool::MpiTransport transport = tool::MpiTransport::Via) const {
        std::vector<std::string> all = tool::mpi_transport_words(launch(transport));
        all.emplace_back("--oversubscribe");
        return all;
    }
    [[nodiscard]] MpiLaunch in_host(std::vector<std::string> settings) const {
        for (std::string& entry : environment())
            settings.push_back(std::move(entry));
        settings.push_back("VIA_AGENT_SOCKET=" + with_.agent_socket);
        return [settings](Command command, Deadline deadline) {
            command.environment.insert(command.environment.end(), settings.begin(), settings.end());
            return run(command, deadline);
        };
    }

    const MpiContestants& with_;

  public:
    const Mpi via;
    const Mpi fabric;
    const Mpi vader;
    const Mpi vader_yielding;
    const Mpi ucx;
    const Mpi usual;
};

class MpiRows {
  public:
    MpiRows(PlanBuilder& builder, const MpiContestants& with)
        : builder_(builder), with_(with), ways_(with) {}

    void add_messages();
    void add_collectives();
    void add_shared_cores();
    void add_between_hosts();
    void add_fabric();

  private:
    void add(Row row, const Probe& ours, std::optional<Probe> peer) {
        row.name = std::string(mpi_prefix) + row.name;
        row.group = Group::Mpi;
        row.pairs = {builder_.pair(row.name, row.title, ours, std::move(peer))};
        builder_.row(std::move(row));
    }
    static Row law(std::string name, std::string title, Relation relation, double must) {
        Row row = information(std::move(name), std::move(title));
        row.relation = relation;
        row.must = must;
        return row;
    }
    static Row information(std::string name, std::string title) {
        Row row;
        row.name = std::move(name);
        row.title = std::move(title);
        return row;
    }
    /// Of what others offer inside a host.
    template <class Make>
    [[nodiscard]] Probe best(const Make& make) const {
        return best_of("the best of vader, UCX and MPICH",
                       {make(ways_.vader), make(ways_.ucx), make(with_.mpich)});
    }
    [[nodiscard]] Probe fabric(const std::string& provider, const std::string& what,
                               Quantity quantity) const;

    PlanBuilder& builder_;
    const MpiContestants& with_;
    Ways ways_;
};

void MpiRows::add_messages() {
    const auto latency = [](std::size_t bytes) {
        return [bytes](const Mpi& mpi) { return mpi.latency(bytes); };
    };
    const auto stream = [](std::size_t bytes) {
        return [bytes](const Mpi& mpi) { return mpi.stream(bytes); };
    };
    add(law("latency-8", "8 B latency ÷ the best of vader, UCX and MPICH", Relation::AtMost, 0.9),
        ways_.via.latency(8), best(latency(8)));
    for (std::size_t bytes = 128; bytes <= 4 * kilobyte; bytes *= 2)
        add(law(fmt::format("latency-{}", bytes), show_bytes(bytes) + " latency ÷ the best of them",
                Relation::AtMost, 1.0),
            ways_.via.latency(bytes), best(latency(bytes)));
    for (const std::size_t bytes : {megabyte, 4 * megabyte})
        add(law(fmt::format("latency-{}m", bytes / megabyte),
                show_bytes(bytes) + " latency ÷ the best of them", Relation::AtMost, 1.03),
            ways_.via.latency(bytes), best(latency(bytes)));
    for (const std::size_t bytes : {4 * kilobyte, 64 * kilobyte})
        add(law(fmt::format("stream-{}k", bytes / kilobyte),
                show_bytes(bytes) + " stream ÷ the best of them", Relation::AtLeast, 1.0),
            ways_.via.stream(bytes), best(stream(bytes)));
    for (const std::size_t bytes : {megabyte, 4 * megabyte})
        add(law(fmt::format("stream-{}m", bytes / megabyte),
                show_bytes(bytes) + " stream ÷ the best of them", Relation::AtLeast, 0.97),
            ways_.via.stream(bytes), best(stream(bytes)));
    add(law("rate-8", "8 B message rate ÷ the best of them", Relation::AtLeast, 1.0),
        ways_.via.message_rate(8), best([](const Mpi& mpi) { return mpi.message_rate(8); }));
    // Programs that come by libfabric instead: other MPIs, or another Open MPI.
    add(information("latency-8-ofi", "8 B latency by libfabric ÷ the best of them"),
        ways_.fabric.latency(8), best(latency(8)));
    add(information("rate-8-ofi", "8 B message rate by libfabric ÷ the best of them"),
        ways_.fabric.message_rate(8), best([](const Mpi& mpi) { return mpi.message_rate(8); }));
}

void MpiRows::add_collectives() {
    add(law("allreduce-8", "8 B allreduce of 2 ranks ÷ Open MPI as it comes", Relation::AtMost,
            1.0),
        ways_.via.allreduce(8, 2), ways_.usual.allreduce(8, 2));
    add(law("barrier", "barrier of 2 ranks ÷ Open MPI as it comes", Relation::AtMost, 1.0),
        ways_.via.barrier(2), ways_.usual.barrier(2));
}

void MpiRows::add_shared_cores() {
    add(law("one-core", "both ranks on one core: 8 B latency ÷ vader there", Relation::AtMost, 0.1),
        ways_.via.one_core_latency(8), ways_.vader.one_core_latency(8));
    add(information("one-core-yield", "the same ÷ vader with mpi_yield_when_idle"),
        ways_.via.one_core_latency(8), ways_.vader_yielding.one_core_latency(8));
    add(law("allreduce-4-ranks",
            "4 ranks on 2 cores: 8 B allreduce ÷ the best of Open MPI and MPICH", Relation::AtMost,
            0.8),
        ways_.via.allreduce(8, 4),
        best_of("the best of Open MPI, Open MPI yielding and MPICH",
                {ways_.usual.allreduce(8, 4), ways_.vader_yielding.allreduce(8, 4),
                 with_.mpich.allreduce(8, 4)}));
    add(law("blocked", "processor time of a rank that waits in MPI_Recv, VIA_PROGRESS=sleep",
            Relation::AtMost, 1),
        ways_.with_setting("VIA_PROGRESS=sleep").blocked_cpu(), std::nullopt);
}

void MpiRows::add_between_hosts() {
    const lab::Lab* const fast = with_.labs != nullptr ? with_.labs->fast.get() : nullptr;
    const lab::Lab* const equal = with_.labs != nullptr ? with_.labs->equal.get() : nullptr;
    add(law("net-latency-8", "between hosts: 8 B latency ÷ Open MPI over TCP", Relation::AtMost,
            0.8),
        ways_.between_hosts(fast, 1).latency(8), ways_.tcp(fast, 1).latency(8));
    add(law("net-stream-1m", "two links of 1 Gbit/s: 1 MB stream ÷ Open MPI over TCP on both",
            Relation::AtLeast, 1.0),
        ways_.between_hosts(equal, 2).stream(megabyte), ways_.tcp(equal, 2).stream(megabyte));
}

Probe MpiRows::fabric(const std::string& provider, const std::string& what,
                      Quantity quantity) const {
    Command command;
    command.arguments = {with_.folder + "/fabric_ranks",
                         what,
                         "--provider",
                         provider,
                         "--cpus",
                         fmt::format("{},{}", with_.cores.first, with_.cores.second),
                         "--json"};
    command.environment = {"FI_PROVIDER=" + provider, "FI_PROVIDER_PATH=" + with_.provider,
                           "VIA_AGENT_PROGRAM=" + with_.folder + "/viad",
                           "VIA_AGENT_SOCKET=" + with_.agent_socket};
    std::string missing = provider == "via" ? with_.missing : std::string();
    if (find_program(command.arguments.front()).empty()) missing = "built without libfabric-dev";
    return {"libfabric, " + provider, quantity, std::move(missing), [command]() -> Result<double> {
                auto output = run(command, Deadline::after_milliseconds(fabric_milliseconds));
                if (!output) return std::move(output).error();
                return json_number(output.value(), "value", "fabric_ranks");
            }};
}

void MpiRows::add_fabric() {
    add(law("fabric-8", "8 B tagged ping-pong by libfabric ÷ its provider shm", Relation::AtMost,
            0.5),
        fabric("via", "latency", Quantity::OneWayMicroseconds),
        fabric("shm", "latency", Quantity::OneWayMicroseconds));
    add(law("memory-64", "memory that 64 connected peers and the layer add to a rank, KiB",
            Relation::AtMost, 16.0 * 1024),
        fabric("via", "memory", Quantity::Kibibytes), std::nullopt);
}

}  // namespace

void add_mpi_curves(Plan& plan, const MpiContestants& contestants, bool quick) {
    const Ways ways(contestants);
    const std::vector<std::size_t> sizes = quick ? std::vector<std::size_t>{8,
                                                                            128,
                                                                            2 * kilobyte,
                                                                            32 * kilobyte,
                                                                            512 * kilobyte,
                                                                            4 * megabyte}
                                                 : powers_of_two(8, 4 * megabyte);
    for (const Mpi* mpi : {&ways.via, &ways.vader, &ways.ucx, &contestants.mpich}) {
        for (Curve curve : {mpi->latency_curve(sizes), mpi->stream_curve(sizes)}) {
            curve.group = Group::Mpi;
            plan.curves.push_back(std::move(curve));
        }
    }
}

void add_mpi_rows(PlanBuilder& builder, const MpiContestants& contestants) {
    MpiRows rows(builder, contestants);
    rows.add_messages();
    rows.add_collectives();
    rows.add_shared_cores();
    rows.add_fabric();
    rows.add_between_hosts();
}

}  // namespace via::bench
