// SPDX-License-Identifier: BSD-3-Clause
// libfabric as an MPI uses it, over any provider that has reliable datagrams with tags: the one-way
// time of a ping-pong between two processes, or the memory that a rank needs for its peers.
//
//     fabric_ranks latency --provider shm --bytes 8 --cpus 0,1
//     fabric_ranks memory --provider via --peers 64
#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <string.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "bare/pinning.hpp"
#include "bare/shared_mapping.hpp"
#include "base/clock.hpp"
#include "memory_use.hpp"
#include "two_processes.hpp"

namespace {

using namespace via;
using namespace via::bench;
using base::Deadline;
using base::Result;

constexpr std::uint64_t deadline_milliseconds = 40'000;
constexpr std::size_t most_peers = 256;
constexpr std::uint64_t tag = 7;

struct Options {
    std::string provider = "via";
    std::size_t bytes = 8;
    std::size_t peers = 64;
    std::string cpus = "0,1";
    bool json = false;
};

struct CloseObject {
    template <class Object>
    void operator()(Object* object) const {
        fi_close(&object->fid);
    }
};
template <class Object>
using Held = std::unique_ptr<Object, CloseObject>;
struct FreeInfo {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

base::Error fabric_error(std::string_view call, long code) {
    return {base::Code::System,
            std::string(call) + " of libfabric: " + fi_strerror(static_cast<int>(-code))};
}

/// What an endpoint is called, for the other process.
struct EndpointName {
    std::array<char, 128> bytes{};
    std::size_t size = 0;
};

/// Memory of both processes.
struct Shared {
    EndpointName rank;
    std::array<EndpointName, most_peers> peers;
};

Result<Info> find_provider(const std::string& provider) {
    Info hints(fi_allocinfo());
    if (!hints) return {base::Code::System, "fi_allocinfo of libfabric: no memory"};
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = ::strdup(provider.c_str());
    fi_info* found = nullptr;
    if (const int code = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found);
        code != 0)
        return fabric_error("fi_getinfo", code);
    return Info(found);
}

/// A domain with an endpoint and all that it needs.
class Rank {
  public:
    static Result<Rank> open(const Info& info) {
        Rank rank;
        fid_fabric* fabric = nullptr;
        if (const int code = fi_fabric(info->fabric_attr, &fabric, nullptr); code != 0)
            return fabric_error("fi_fabric", code);
        rank.fabric_.reset(fabric);
        fid_domain* domain = nullptr;
        if (const int code = fi_domain(fabric, info.get(), &domain, nullptr); code != 0)
            return fabric_error("fi_domain", code);
        rank.domain_.reset(domain);
        fi_cq_attr queue_attributes{};
        queue_attributes.format = FI_CQ_FORMAT_TAGGED;
        fid_cq* queue = nullptr;
        if (const int code = fi_cq_open(domain, &queue_attributes, &queue, nullptr); code != 0)
            return fabric_error("fi_cq_open", code);
        rank.queue_.reset(queue);
        fi_av_attr table_attributes{};
        table_attributes.type = FI_AV_TABLE;
        fid_av* table = nullptr;
        if (const int code = fi_av_open(domain, &table_attributes, &table, nullptr); code != 0)
            return fabric_error("fi_av_open", code);
        rank.table_.reset(table);
        fid_ep* endpoint = nullptr;
        if (const int code = fi_endpoint(domain, info.get(), &endpoint, nullptr); code != 0)
            return fabric_error("fi_endpoint", code);
        rank.endpoint_.reset(endpoint);
        int code = fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV);
        if (code == 0) code = fi_ep_bind(endpoint, &table->fid, 0);
        if (code == 0) code = fi_enable(endpoint);
        if (code != 0) return fabric_error("fi_ep_bind or fi_enable", code);
        if (info->tx_attr->inject_size < 8)
            return {base::Code::NotSupported, "the provider injects nothing"};
        rank.most_injected_ = info->tx_attr->inject_size;
        return rank;
    }

    [[nodiscard]] Result<EndpointName> name() const {
        EndpointName name;
        name.size = name.bytes.size();
        if (const int code = fi_getname(&endpoint_->fid, name.bytes.data(), &name.size); code != 0)
            return fabric_error("fi_getname", code);
        return name;
    }
    [[nodiscard]] Result<fi_addr_t> aim_at(const EndpointName& other) {
        fi_addr_t address = FI_ADDR_UNSPEC;
        if (const int count =
                fi_av_insert(table_.get(), other.bytes.data(), 1, &address, 0, nullptr);
            count != 1)
            return fabric_error("fi_av_insert", count);
        return address;
    }

    Result<void> receive_later(std::vector<char>& message, Deadline deadline) {
        return until_taken("fi_trecv", deadline, [&] {
            return fi_trecv(endpoint_.get(), message.data(), message.size(), nullptr,
                            FI_ADDR_UNSPEC, tag, 0, &receive_context_);
        });
    }
    Result<void> send(const std::vector<char>& message, fi_addr_t to, Deadline deadline) {
        if (message.size() > most_injected_)
            return {base::Code::InvalidArgument,
                    fmt::format("at most {} bytes are injected", most_injected_)};
        return until_taken("fi_tinject", deadline, [&] {
            return fi_tinject(endpoint_.get(), message.data(), message.size(), to, tag);
        });
    }
    /// Spins until the receive has completed.
    Result<void> await_receive(Deadline deadline) {
        constexpr int looks_per_clock = 1 << 12;
        for (;;) {
            for (int look = 0; look < looks_per_clock; ++look) {
                auto came = look_once();
                if (!came) return std::move(came).error();
                if (came.value()) return {};
            }
            if (deadline.expired())
                return {base::Code::Timeout, "messages of libfabric came to a standstill"};
        }
    }
    /// Whether a receive has completed; the provider moves on meanwhile.
    Result<bool> look_once() {
        fi_cq_tagged_entry entry{};
        const ssize_t count = fi_cq_read(queue_.get(), &entry, 1);
        if (count == 1) return true;
        if (count != -FI_EAGAIN) return fabric_error("fi_cq_read", count);
        return false;
    }

  private:
    /// Connecting happens meanwhile, and only while somebody asks for completions.
    template <class Call>
    Result<void> until_taken(const char* what, Deadline deadline, const Call& call) {
        for (;;) {
            const ssize_t code = call();
            if (code == 0) return {};
            if (code != -FI_EAGAIN) return fabric_error(what, code);
            fi_cq_read(queue_.get(), nullptr, 0);
            if (deadline.expired())
                return {base::Code::Timeout, std::string(what) + " of libfabric is not taken"};
        }
    }

    // In this order: each uses those above it.
    Held<fid_fabric> fabric_;
    Held<fid_domain> domain_;
    Held<fid_cq> queue_;
    Held<fid_av> table_;
    Held<fid_ep> endpoint_;
    fi_context2 receive_context_{};
    std::size_t most_injected_ = 0;
};

Result<void> play(Rank& rank, fi_addr_t other, bool begins, const Options& options,
                  std::vector<double>& one_way, Deadline deadline) {
    constexpr std::size_t samples = 200;
    constexpr std::size_t warm_up = 20;
    constexpr std::size_t trips = 500;
    std::vector<char> outgoing(options.bytes, 'm');
    std::vector<char> incoming(options.bytes);
    if (auto posted = rank.receive_later(incoming, deadline); !posted) return posted;
    for (std::size_t sample = 0; sample < warm_up + samples; ++sample) {
        const base::Nanoseconds begin = base::monotonic_now();
        for (std::size_t trip = 0; trip < trips; ++trip) {
            if (begins)
                if (auto sent = rank.send(outgoing, other, deadline); !sent) return sent;
            if (auto received = rank.await_receive(deadline); !received) return received;
            if (auto posted = rank.receive_later(incoming, deadline); !posted) return posted;
            if (!begins)
                if (auto sent = rank.send(outgoing, other, deadline); !sent) return sent;
        }
        const auto time = static_cast<double>(base::monotonic_now() - begin);
        if (sample >= warm_up) one_way.push_back(time / static_cast<double>(2 * trips) / 1000);
    }
    return {};
}

Result<void> latency_side(const Options& options, Shared& shared, bool begins, int core,
                          Companion& companion, std::vector<double>& one_way) {
    const Deadline deadline = Deadline::after_milliseconds(deadline_milliseconds);
    if (auto pinned = bare::pin_to(core); !pinned) return pinned;
    auto info = find_provider(options.provider);
    if (!info) return std::move(info).error();
    auto rank = Rank::open(info.value());
    if (!rank) return std::move(rank).error();
    auto name = rank.value().name();
    if (!name) return std::move(name).error();
    (begins ? shared.rank : shared.peers[0]) = name.value();
    if (auto met = companion.meet(deadline); !met) return met;
    auto other = rank.value().aim_at(begins ? shared.peers[0] : shared.rank);
    if (!other) return std::move(other).error();
    if (auto played = play(rank.value(), other.value(), begins, options, one_way, deadline);
        !played)
        return played;
    // A connection stays until the other side has had its last answer.
    return companion.meet(deadline);
}

Result<double> measure_latency(const Options& options, Shared& shared) {
    std::array<int, 2> cores{};
    if (std::sscanf(options.cpus.c_str(), "%d,%d", &cores[0], &cores[1]) != 2)
        return {base::Code::InvalidArgument, "--cpus: two processors, such as 0,1"};
    std::vector<double> one_way;
    auto companion = Companion::start([&](Companion& parent) {
        return latency_side(options, shared, false, cores[1], parent, one_way);
    });
    if (!companion) return std::move(companion).error();
    if (auto done = latency_side(options, shared, true, cores[0], companion.value(), one_way);
        !done)
        return std::move(done).error();
    if (auto joined = companion.value().join(Deadline::after_milliseconds(deadline_milliseconds));
        !joined)
        return std::move(joined).error();
    std::nth_element(one_way.begin(), one_way.begin() + static_cast<long>(one_way.size() / 2),
                     one_way.end());
    return one_way[one_way.size() / 2];
}

struct OwnMemory {
    double resident = 0;      ///< KiB
    double proportional = 0;  ///< KiB; what is shared is halved
};

OwnMemory own_memory() {
    std::ifstream file("/proc/self/smaps_rollup");
    std::stringstream text;
    text << file.rdbuf();
    const auto kibibytes = [&](const char* name) {
        return static_cast<double>(kilobyte_line(text.str(), name)) / 1024;
    };
    return {kibibytes("Rss"), kibibytes("Pss")};
}

/// All peers of the rank, in one process.
Result<void> be_the_peers(const Options& options, Shared& shared, Companion& parent) {
    const Deadline deadline = Deadline::after_milliseconds(deadline_milliseconds);
    auto info = find_provider(options.provider);
    if (!info) return std::move(info).error();
    std::vector<Rank> peers;
    peers.reserve(options.peers);
    for (std::size_t number = 0; number < options.peers; ++number) {
        auto opened = Rank::open(info.value());
        if (!opened) return std::move(opened).error();
        peers.push_back(std::move(opened).value());
        auto name = peers.back().name();
        if (!name) return std::move(name).error();
        shared.peers[number] = name.value();
    }
    if (auto met = parent.meet(deadline); !met) return met;
    std::vector<char> message(options.bytes, 'p');
    for (Rank& peer : peers) {
        auto rank = peer.aim_at(shared.rank);
        if (!rank) return std::move(rank).error();
        if (auto posted = peer.receive_later(message, deadline); !posted) return posted;
        if (auto sent = peer.send(message, rank.value(), deadline); !sent) return sent;
        if (auto received = peer.await_receive(deadline); !received) return received;
    }
    for (int meeting = 0; meeting < 2; ++meeting)
        if (auto met = parent.meet(deadline); !met) return met;
    return {};
}

Result<OwnMemory> measure_memory(const Options& options, Shared& shared) {
    const Deadline deadline = Deadline::after_milliseconds(deadline_milliseconds);
    auto companion =
        Companion::start([&](Companion& parent) { return be_the_peers(options, shared, parent); });
    if (!companion) return std::move(companion).error();
    auto info = find_provider(options.provider);
    if (!info) return std::move(info).error();
    const OwnMemory before = own_memory();
    auto rank = Rank::open(info.value());
    if (!rank) return std::move(rank).error();
    auto name = rank.value().name();
    if (!name) return std::move(name).error();
    shared.rank = name.value();
    if (auto met = companion.value().meet(deadline); !met) return std::move(met).error();
    std::vector<char> message(options.bytes, 'r');
    for (std::size_t number = 0; number < options.peers; ++number) {
        auto peer = rank.value().aim_at(shared.peers[number]);
        if (!peer) return std::move(peer).error();
        if (auto posted = rank.value().receive_later(message, deadline); !posted)
            return std::move(posted).error();
        if (auto received = rank.value().await_receive(deadline); !received)
            return std::move(received).error();
        if (auto sent = rank.value().send(message, peer.value(), deadline); !sent)
            return std::move(sent).error();
    }
    if (auto met = companion.value().meet(deadline); !met) return std::move(met).error();
    const OwnMemory after = own_memory();
    if (auto met = companion.value().meet(deadline); !met) return std::move(met).error();
    if (auto joined = companion.value().join(deadline); !joined) return std::move(joined).error();
    return OwnMemory{after.resident - before.resident, after.proportional - before.proportional};
}

int complain(const base::Error& error) {
    fmt::print(stderr, "fabric_ranks: {}\n", error.sentence);
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("libfabric as an MPI uses it, over a provider.", "fabric_ranks");
    app.require_subcommand(1);
    CLI::App* latency = app.add_subcommand("latency", "one-way time of a tagged ping-pong, µs");
    CLI::App* memory = app.add_subcommand("memory", "what a rank's peers cost it, KiB");
    for (CLI::App* command : {latency, memory}) {
        command->add_option("--provider", options.provider, "its name")->capture_default_str();
        command->add_option("--bytes", options.bytes, "of a message")->capture_default_str();
        command->add_option("--cpus", options.cpus, "two processors")->capture_default_str();
        command->add_flag("--json", options.json, "print JSON");
    }
    memory->add_option("--peers", options.peers, "how many")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{1}, most_peers));
    CLI11_PARSE(app, argc, argv);

    auto mapping = bare::SharedMapping::create(sizeof(Shared));
    if (!mapping) return complain(mapping.error());
    auto& shared = *new (mapping.value().data()) Shared;
    if (*latency) {
        auto value = measure_latency(options, shared);
        if (!value) return complain(value.error());
        if (options.json)
            fmt::print("{}\n", nlohmann::json{{"value", value.value()}}.dump());
        else
            fmt::print("{} bytes: {:.3f} µs one way\n", options.bytes, value.value());
        return 0;
    }
    auto value = measure_memory(options, shared);
    if (!value) return complain(value.error());
    if (options.json)
        fmt::print("{}\n", nlohmann::json{{"value", value.value().resident},
                                          {"proportional", value.value().proportional}}
                               .dump());
    else
        fmt::print("{} peers: {:.0f} KiB resident, {:.0f} KiB proportional\n", options.peers,
                   value.value().resident, value.value().proportional);
    return 0;
}
