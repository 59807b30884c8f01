// SPDX-License-Identifier: BSD-3-Clause
#include "net/net_plan.hpp"

#include <fmt/format.h>

#include <utility>

#include "net/net_probes.hpp"
#include "net/shared_link.hpp"
#include "net/via_net.hpp"

namespace via::bench {

namespace {

constexpr std::size_t kilobyte = 1024;
constexpr std::size_t megabyte = 1024 * 1024;

/// Adds rows of this group; where there are no labs their probes say so.
class NetRows {
  public:
    NetRows(PlanBuilder& builder, const NetContestants& with) : builder_(builder), with_(with) {}

    void add(Row row, Probe ours, std::optional<Probe> peer) {
        row.name = std::string(net_prefix) + row.name;
        row.group = Group::BetweenHosts;
        if (!with_.missing.empty()) {
            ours.missing = with_.missing;
            if (peer) peer->missing = with_.missing;
        }
        row.pairs = {builder_.pair(row.name, row.title, ours, std::move(peer))};
        builder_.row(std::move(row));
    }
    void at_most(std::string name, std::string title, double must, std::optional<double> aim,
                 const Probe& ours, const std::optional<Probe>& peer) {
        Row row;
        row.name = std::move(name);
        row.title = std::move(title);
        row.relation = Relation::AtMost;
        row.must = must;
        row.aim = aim;
        add(std::move(row), ours, peer);
    }
    void at_least(std::string name, std::string title, double must, std::optional<double> aim,
                  const Probe& ours, const Probe& peer) {
        Row row;
        row.name = std::move(name);
        row.title = std::move(title);
        row.relation = Relation::AtLeast;
        row.must = must;
        row.aim = aim;
        add(std::move(row), ours, peer);
    }
    void information(std::string name, std::string title, const Probe& ours,
                     const std::optional<Probe>& peer) {
        Row row;
        row.name = std::move(name);
        row.title = std::move(title);
        add(std::move(row), ours, peer);
    }

    [[nodiscard]] NetPlace place(const lab::Lab* lab, unsigned link = 0) const {
        NetPlace place;
        place.lab = lab;
        place.link = link;
        place.cores = with_.cores;
        return place;
    }

  private:
    PlanBuilder& builder_;
    const NetContestants& with_;
};

void add_latencies(NetRows& rows, const NetContestants& with, const lab::Lab* fast) {
    const NetPlace place = rows.place(fast);
    const auto latency = [&](const NetForm& form) { return via_net_latency(with.via, form); };
    const Probe usual = latency({.lab = fast, .links = "link0"});
    rows.at_most("latency-8-udp", "8 B latency ÷ bare spinning UDP", 1.25, 1.1, usual,
                 bare_udp_latency(place, 8));
    rows.at_most("latency-8-raw", "8 B latency, raw path (ring) ÷ bare spinning UDP", 0.75, 0.5,
                 latency({.lab = fast, .links = "link0", .raw = "ring"}),
                 bare_udp_latency(place, 8));
    rows.at_most("latency-8-openmpi", "8 B latency ÷ Open MPI over TCP", 0.75, 0.5, usual,
                 with.open_mpi.latency(8));
    rows.at_most("latency-8-libfabric", "8 B latency ÷ libfabric tcp", 0.75, 0.5, usual,
                 fabric_latency(place, 8));
    rows.at_most("latency-4k-tcp", "4 KB latency ÷ bare spinning TCP", 0.95, 0.8,
                 latency({.lab = fast, .bytes = 4 * kilobyte, .links = "link0"}),
                 bare_tcp_latency(place, 4 * kilobyte));
    rows.at_most("latency-8-links", "8 B latency with two links ÷ with one", 1.05, 1.0,
                 latency({.lab = fast}), usual);
}

void add_streams(NetRows& rows, const NetContestants& with, const lab::Lab* fast,
                 const lab::Lab* jumbo) {
    const auto form = [](const lab::Lab* lab, std::size_t bytes) {
        return NetForm{.lab = lab, .bytes = bytes, .links = "link0"};
    };
    const auto stream = [&](const lab::Lab* lab, std::size_t bytes) {
        return via_net_stream(with.via, form(lab, bytes));
    };
    const NetPlace place = rows.place(fast);
    rows.at_least("stream-1m-1500", "1 MB stream ÷ TCP, the faster of BBR and cubic, MTU 1500",
                  0.75, 1.0, stream(fast, megabyte), bare_tcp_best_stream(place, megabyte, 1));
    rows.at_least("stream-1m-9000", "1 MB stream ÷ the same, MTU 9000", 0.95, 1.1,
                  stream(jumbo, megabyte), bare_tcp_best_stream(rows.place(jumbo), megabyte, 1));
    for (const auto& [mtu, lab] : {std::pair<std::string, const lab::Lab*>{"1500", fast},
                                   std::pair<std::string, const lab::Lab*>{"9000", jumbo}}) {
        rows.information("stream-trains-" + mtu,
                         "bare UDP trains, no checks, no acknowledgements ÷ TCP, MTU " + mtu,
                         bare_udp_trains(rows.place(lab), megabyte),
                         bare_tcp_best_stream(rows.place(lab), megabyte, 1));
    }
    rows.at_least("stream-64k", "64 KB stream ÷ the same, MTU 1500", 1.1, 1.5,
                  stream(fast, 64 * kilobyte), bare_tcp_best_stream(place, 64 * kilobyte, 1));
    rows.at_least("stream-4k", "4 KB stream ÷ TCP, a write per message", 2, 5,
                  stream(fast, 4 * kilobyte), bare_tcp_best_stream(place, 4 * kilobyte, 1));
    rows.at_least("stream-4k-16", "4 KB stream ÷ TCP, 16 messages a call", 1.0, 1.3,
                  stream(fast, 4 * kilobyte), bare_tcp_best_stream(place, 4 * kilobyte, 16));
    rows.at_least("rate-64", "64 B message rate ÷ bare UDP, a send per message", 5, 15,
                  via_net_rate(with.via, form(fast, 64)), bare_udp_rate(place, 64, false));
    NetForm blocking = form(fast, megabyte);
    blocking.block = true;
    rows.at_most("cpu-1m", "CPU of both sides per GB, 1 MB stream, both wait ÷ TCP's", 1.3, 1.0,
                 via_net_cpu(with.via, blocking), bare_tcp_best_cpu(place, megabyte));
    rows.information("cpu-1m-poll", "CPU of both sides per GB, 1 MB stream, ours polls ÷ TCP's",
                     via_net_cpu(with.via, form(fast, megabyte)),
                     bare_tcp_best_cpu(place, megabyte));
}

void add_links(NetRows& rows, const NetContestants& with, const NetLabs& labs) {
    struct Links {
        const char* name;
        const char* title;
        const lab::Lab* lab;
        std::uint64_t rate;  ///< of the two together
    };
    const Links equal{"equal", "equal links", labs.equal.get(), 2 * NetLabs::gigabit};
    const Links unequal{"unequal", "unequal links", labs.unequal.get(),
                        NetLabs::gigabit + NetLabs::slow_rate};
    const Links lossy{"lossy", "links of which one loses 1 %", labs.lossy.get(),
                      2 * NetLabs::gigabit};
    const auto all = [&](const Links& links, const char* policy = "") {
        Probe probe = via_net_stream(
            with.via, {.lab = links.lab, .bytes = megabyte, .policy = policy, .rate = links.rate});
        if (*policy != '\0') probe.label = policy;
        return probe;
    };
    const auto one = [&](const Links& links, const char* link, std::uint64_t rate) {
        return via_net_stream(with.via,
                              {.lab = links.lab, .bytes = megabyte, .links = link, .rate = rate});
    };
    rows.at_least("links-equal", "two links of 1 Gbit/s, 1 MB messages ÷ one", 1.9, 1.97,
                  all(equal), one(equal, "link0", NetLabs::gigabit));
    rows.at_least("links-unequal", "1 Gbit/s and 250 Mbit/s ÷ the sum of each alone", 0.93, 0.97,
                  all(unequal),
                  sum_of("via, each link alone", {one(unequal, "link0", NetLabs::gigabit),
                                                  one(unequal, "link1", NetLabs::slow_rate)}));
    for (const Links& links : {equal, unequal, lossy}) {
        rows.at_least(std::string("adaptive-") + links.name,
                      std::string("adaptive ÷ the best of the other policies, ") + links.title, 1.0,
                      std::nullopt, all(links, "adaptive"),
                      best_of("the best of static, oneway and dynamic",
                              {all(links, "static"), all(links, "oneway"), all(links, "dynamic")}));
    }
    // Twice, as how much a loss costs depends on how long it takes to be noticed: a lab's own links
    // are microseconds long, and both nearly fill them.
    const Links distant{"distant", "a link of a millisecond", labs.distant.get(), NetLabs::gigabit};
    rows.at_least("loss", "1 MB stream at 1 % loss, 1 Gbit/s, 1 ms there and back ÷ TCP cubic", 1.5,
                  std::nullopt, one(distant, "link0", NetLabs::gigabit),
                  bare_tcp_stream(rows.place(distant.lab, 0), megabyte, 1, "cubic"));
    rows.at_least("loss-near", "the same, a lab's own microseconds there and back", 1.5,
                  std::nullopt, one(lossy, "link1", NetLabs::gigabit),
                  bare_tcp_stream(rows.place(lossy.lab, 1), megabyte, 1, "cubic"));
}

void add_stalls(NetRows& rows, const NetContestants& with) {
    rows.at_most("cut", "one of two links cut under load: longest stall in ms", 50, 10,
                 via_net_stall(with.via, false), std::nullopt);
    rows.information("cut-silent", "the same, but packets vanish without a sign",
                     via_net_stall(with.via, true), std::nullopt);
}

void add_share(NetRows& rows, const NetContestants& with, const lab::Lab* equal) {
    constexpr double least = 35;
    constexpr double most = 65;
    Row row;
    row.name = "share";
    row.title = "two streams of ours, two of TCP cubic on 1 Gbit/s: our share";
    row.relation = Relation::Between;
    row.must = least;
    row.most = most;
    row.must_text = fmt::format("{}–{} %", least, most);
    rows.add(std::move(row), our_share(with.via, rows.place(equal), {}), std::nullopt);
}

}  // namespace

void add_net_curves(Plan& plan, const NetContestants& with, bool quick) {
    const lab::Lab* const fast = with.labs != nullptr ? with.labs->fast.get() : nullptr;
    NetPlace place;
    place.lab = fast;
    place.cores = with.cores;
    const std::vector<std::size_t> sizes =
        quick
            ? std::vector<std::size_t>{8, 512, 32 * kilobyte, megabyte}
            : std::vector<std::size_t>{
                  8, 64, 512, 4 * kilobyte, 16 * kilobyte, 64 * kilobyte, 256 * kilobyte, megabyte};
    const auto add = [&](const char* label, const std::function<Probe(std::size_t)>& probe) {
        Curve curve = curve_of(label, sizes, probe);
        curve.group = Group::BetweenHosts;
        if (!with.missing.empty()) curve.missing = with.missing;
        plan.curves.push_back(std::move(curve));
    };
    const auto form = [fast](std::size_t bytes) {
        return NetForm{.lab = fast, .bytes = bytes, .links = "link0"};
    };
    add("via", [&](std::size_t bytes) { return via_net_latency(with.via, form(bytes)); });
    add("via", [&](std::size_t bytes) { return via_net_stream(with.via, form(bytes)); });
    add("plain TCP", [&](std::size_t bytes) { return bare_tcp_latency(place, bytes); });
    add("plain TCP, cubic",
        [&](std::size_t bytes) { return bare_tcp_stream(place, bytes, 1, "cubic"); });
}

void add_net_rows(PlanBuilder& builder, const NetContestants& with) {
    static const NetLabs none;
    const NetLabs& labs = with.labs != nullptr ? *with.labs : none;
    NetRows rows(builder, with);
    add_latencies(rows, with, labs.fast.get());
    add_streams(rows, with, labs.fast.get(), labs.jumbo.get());
    add_links(rows, with, labs);
    add_stalls(rows, with);
    add_share(rows, with, labs.equal.get());
}

}  // namespace via::bench
