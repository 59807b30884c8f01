// SPDX-License-Identifier: BSD-3-Clause
#include "net/fabric_peer.hpp"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include <array>
#include <memory>
#include <new>
#include <utility>

#include "bare/pinning.hpp"
#include "bare/shared_mapping.hpp"
#include "two_processes.hpp"

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

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

base::Error fabric_error(std::string_view call, long code) {
    return {base::Code::System,
            std::string(call) + " of libfabric: " + fi_strerror(static_cast<int>(-code))};
}

/// What an endpoint is called, for the other side.
struct EndpointName {
    std::array<char, 128> bytes{};
    std::size_t size = 0;
};

/// A side: a domain with an endpoint and all that it needs.
class FabricSide {
  public:
    static Result<FabricSide> open(const std::string& address) {
        FabricSide side;
        std::unique_ptr<fi_info, FreeInfo> hints(fi_allocinfo());
        if (!hints) return {base::Code::System, "fi_allocinfo of libfabric: no memory"};
        hints->caps = FI_MSG;
        hints->ep_attr->type = FI_EP_RDM;
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->fabric_attr->prov_name = ::strdup("tcp");
        fi_info* found = nullptr;
        if (const int code = fi_getinfo(FI_VERSION(1, 17), address.c_str(), nullptr, FI_SOURCE,
                                        hints.get(), &found);
            code != 0) {
            return fabric_error("fi_getinfo", code);
        }
        side.info_.reset(found);
        fid_fabric* fabric = nullptr;
        if (const int code = fi_fabric(found->fabric_attr, &fabric, nullptr); code != 0) {
            return fabric_error("fi_fabric", code);
        }
        side.fabric_.reset(fabric);
        fid_domain* domain = nullptr;
        if (const int code = fi_domain(fabric, found, &domain, nullptr); code != 0) {
            return fabric_error("fi_domain", code);
        }
        side.domain_.reset(domain);
        fi_cq_attr queue_attributes{};
        queue_attributes.format = FI_CQ_FORMAT_CONTEXT;
        fid_cq* queue = nullptr;
        if (const int code = fi_cq_open(domain, &queue_attributes, &queue, nullptr); code != 0) {
            return fabric_error("fi_cq_open", code);
        }
        side.queue_.reset(queue);
        fi_av_attr table_attributes{};
        table_attributes.type = FI_AV_TABLE;
        fid_av* table = nullptr;
        if (const int code = fi_av_open(domain, &table_attributes, &table, nullptr); code != 0) {
            return fabric_error("fi_av_open", code);
        }
        side.table_.reset(table);
        fid_ep* endpoint = nullptr;
        if (const int code = fi_endpoint(domain, found, &endpoint, nullptr); code != 0) {
            return fabric_error("fi_endpoint", code);
        }
        side.endpoint_.reset(endpoint);
        int code = fi_ep_bind(endpoint, &queue->fid, FI_SEND | FI_RECV);
        if (code == 0) code = fi_ep_bind(endpoint, &table->fid, 0);
        if (code == 0) code = fi_enable(endpoint);
        if (code != 0) return fabric_error("fi_ep_bind or fi_enable", code);
        return side;
    }

    [[nodiscard]] Result<EndpointName> name() const {
        EndpointName name;
        name.size = name.bytes.size();
        if (const int code = fi_getname(&endpoint_->fid, name.bytes.data(), &name.size);
            code != 0) {
            return fabric_error("fi_getname", code);
        }
        return name;
    }

    Result<void> aim_at(const EndpointName& other) {
        if (const int count =
                fi_av_insert(table_.get(), other.bytes.data(), 1, &other_, 0, nullptr);
            count != 1) {
            return fabric_error("fi_av_insert", count);
        }
        return {};
    }

    [[nodiscard]] std::size_t most_injected() const { return info_->tx_attr->inject_size; }

    Result<void> post_receive(std::vector<char>& message) {
        return until_taken("fi_recv", [&] {
            return fi_recv(endpoint_.get(), message.data(), message.size(), nullptr, other_,
                           &receive_context_);
        });
    }

    /// Goes out without a completion.
    Result<void> send(const std::vector<char>& message) {
        return until_taken("fi_inject", [&] {
            return fi_inject(endpoint_.get(), message.data(), message.size(), other_);
        });
    }

    /// Spins until the posted receive has completed.
    Result<void> await_receive() {
        constexpr int looks_per_clock = 1 << 12;
        for (;;) {
            for (int look = 0; look < looks_per_clock; ++look) {
                fi_cq_entry entry{};
                const ssize_t count = fi_cq_read(queue_.get(), &entry, 1);
                if (count == 1) return {};
                if (count != -FI_EAGAIN) return fabric_error("fi_cq_read", count);
            }
            if (deadline_.expired()) {
                return {base::Code::Timeout, "a ping-pong of libfabric came to a standstill"};
            }
        }
    }

    void set_deadline(Deadline deadline) { deadline_ = deadline; }

  private:
    /// Connecting happens meanwhile, and only while somebody asks for completions.
    template <class Call>
    Result<void> until_taken(const char* what, const Call& call) {
        for (;;) {
            const ssize_t code = call();
            if (code == 0) return {};
            if (code != -FI_EAGAIN) return fabric_error(what, code);
            fi_cq_read(queue_.get(), nullptr, 0);
            if (deadline_.expired()) {
                return {base::Code::Timeout, std::string(what) + " of libfabric is not taken"};
            }
        }
    }

    // In this order: each uses those above it.
    std::unique_ptr<fi_info, FreeInfo> info_;
    Held<fid_fabric> fabric_;
    Held<fid_domain> domain_;
    Held<fid_cq> queue_;
    Held<fid_av> table_;
    Held<fid_ep> endpoint_;
    fi_addr_t other_ = FI_ADDR_UNSPEC;
    fi_context receive_context_{};
    Deadline deadline_ = Deadline::never();
};

/// Memory of all three processes. The samples of host a follow it.
struct Shared {
    EndpointName names[2];
};

Result<void> play(FabricSide& side, bool begins, const NetPingPong& wanted, double* one_way) {
    std::vector<char> outgoing(wanted.bytes, 'm');
    std::vector<char> incoming(wanted.bytes);
    const auto hops = static_cast<double>(2 * wanted.round_trips);
    if (auto posted = side.post_receive(incoming); !posted) return posted;
    for (std::uint64_t sample = 0; sample < wanted.warm_up_samples + wanted.samples; ++sample) {
        const base::Nanoseconds begin = base::monotonic_now();
        for (std::uint64_t trip = 0; trip < wanted.round_trips; ++trip) {
            if (begins) {
                if (auto sent = side.send(outgoing); !sent) return sent;
            }
            if (auto received = side.await_receive(); !received) return received;
            if (auto posted = side.post_receive(incoming); !posted) return posted;
            if (!begins) {
                if (auto sent = side.send(outgoing); !sent) return sent;
            }
        }
        const base::Nanoseconds end = base::monotonic_now();
        if (begins && sample >= wanted.warm_up_samples) {
            one_way[sample - wanted.warm_up_samples] = static_cast<double>(end - begin) / hops;
        }
    }
    return {};
}

/// A side in its own process, which is in its host for good.
Result<Companion> start_side(const NetPlace& place, const NetPingPong& wanted, unsigned number,
                             Shared& shared, double* one_way, Deadline deadline) {
    return Companion::start([&place, &wanted, &shared, number, one_way,
                             deadline](Companion& parent) -> Result<void> {
        const char* const host = number == 0 ? "a" : "b";
        if (auto entered = place.lab->enter(host); !entered) return entered;
        auto pinned = bare::pin_to(number == 0 ? place.cores.first : place.cores.second);
        if (!pinned) return pinned;
        auto side = FabricSide::open(place.lab->address(host, place.link));
        if (!side) return std::move(side).error();
        side.value().set_deadline(deadline);
        if (wanted.bytes > side.value().most_injected()) {
            return {base::Code::InvalidArgument, "libfabric's tcp provider injects at most " +
                                                     std::to_string(side.value().most_injected()) +
                                                     " bytes"};
        }
        auto name = side.value().name();
        if (!name) return std::move(name).error();
        shared.names[number] = name.value();
        // Both have come to the first meeting when one is let go from the second.
        for (int meeting = 0; meeting < 2; ++meeting) {
            if (auto met = parent.meet(deadline); !met) return met;
        }
        if (auto aimed = side.value().aim_at(shared.names[1 - number]); !aimed) return aimed;
        if (auto played = play(side.value(), number == 0, wanted, one_way); !played) return played;
        // A connection stays until the other side has had its last answer.
        return parent.meet(deadline);
    });
}

}  // namespace

Result<std::vector<double>> fabric_ping_pong(const NetPlace& place, const NetPingPong& wanted) {
    if (wanted.bytes == 0 || wanted.samples == 0 || wanted.round_trips == 0) {
        return {base::Code::InvalidArgument,
                "a ping-pong needs at least one sample of one round trip of one byte"};
    }
    const Deadline deadline = Deadline::after_milliseconds(place.deadline_seconds * 1000);
    auto mapping = bare::SharedMapping::create(sizeof(Shared) + wanted.samples * sizeof(double));
    if (!mapping) return std::move(mapping).error();
    auto& shared = *new (mapping.value().data()) Shared;
    auto* const one_way = reinterpret_cast<double*>(&shared + 1);
    auto a = start_side(place, wanted, 0, shared, one_way, deadline);
    if (!a) return std::move(a).error();
    auto b = start_side(place, wanted, 1, shared, one_way, deadline);
    if (!b) return std::move(b).error();
    for (int meeting = 0; meeting < 3; ++meeting) {
        for (Companion* side : {&a.value(), &b.value()}) {
            if (auto met = side->meet(deadline); !met) return std::move(met).error();
        }
    }
    for (Companion* side : {&a.value(), &b.value()}) {
        if (auto ended = side->join(deadline); !ended) return std::move(ended).error();
    }
    return std::vector<double>(one_way, one_way + wanted.samples);
}

std::string fabric_missing() {
    return {};
}

}  // namespace via::bench
