// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/info.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "mvich/device.hpp"
#include "ofi/address.hpp"
#include "ofi/errors.hpp"
#include "ofi/provider.hpp"

namespace via::ofi {
namespace {

/// Set by providers that want to be layered on this one. There is nothing to gain from that: what
/// they add is here.
constexpr std::uint64_t core_provider_only = 1ULL << 59;

constexpr std::uint64_t primary_caps = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC;
constexpr std::uint64_t direction_caps =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t reach_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
/// Given whether asked for or not: they cost nothing.
constexpr std::uint64_t free_caps = FI_MULTI_RECV | FI_RMA_EVENT | FI_FENCE | reach_caps;
/// Of connectionless endpoints, and only when asked for: fi_recv then heeds its source.
constexpr std::uint64_t peer_caps = FI_DIRECTED_RECV | FI_SOURCE;
constexpr std::uint64_t vector_caps = FI_SHARED_AV;
/// Of FI_EP_RDM. Not offered before a program asks: MPI libraries that see several contexts use
/// them, and gain nothing, since the threads of a process share the device.
constexpr std::uint64_t scalable_caps = FI_NAMED_RX_CTX;

/// Of both kinds of reliable endpoints. Counters that nobody waits for pay nothing for it.
constexpr std::uint64_t trigger_caps = FI_TRIGGER;

constexpr std::uint64_t transmit_only = FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
constexpr std::uint64_t receive_only = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV |
                                       FI_RMA_EVENT | FI_DIRECTED_RECV | FI_SOURCE;

// A large transfer can be overtaken by what is ordered after it (a rendezvous), so nothing is
// promised between messages and one-sided operations, and for the latter up to a size.
constexpr std::uint64_t message_order =
    FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_RMA_RAR |
    FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |
    FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

constexpr int region_modes = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr std::uint32_t protocol = FI_PROV_SPECIFIC | 0x566941;
constexpr std::size_t many = 1 << 16;

constexpr std::uint32_t first_with_mode_bits = FI_VERSION(1, 5);

struct FreeInfo {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// Of them, those that endpoints of a type can have.
std::uint64_t free_caps_of(fi_ep_type type) noexcept {
    return type == FI_EP_DGRAM ? FI_MULTI_RECV | reach_caps : free_caps;
}

std::uint64_t caps_of(fi_ep_type type) noexcept {
    if (type == FI_EP_DGRAM)
        return FI_MSG | FI_SEND | FI_RECV | peer_caps | vector_caps | free_caps_of(type);
    return primary_caps | direction_caps | free_caps | trigger_caps |
           (type == FI_EP_RDM ? peer_caps | vector_caps | scalable_caps : 0);
}

/// Which directions the primary caps mean when none is named.
std::uint64_t implied_directions(std::uint64_t primary) noexcept {
    std::uint64_t directions = 0;
    if (primary & (FI_MSG | FI_TAGGED)) directions |= FI_SEND | FI_RECV;
    if (primary & (FI_RMA | FI_ATOMIC))
        directions |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    return directions;
}

std::uint64_t granted_caps(fi_ep_type type, const fi_info* hints) noexcept {
    if (hints == nullptr || hints->caps == 0) return caps_of(type) & ~scalable_caps;
    std::uint64_t caps = hints->caps | free_caps_of(type);
    const std::uint64_t primary = hints->caps & primary_caps;
    const std::uint64_t implied = implied_directions(primary);
    // Directions of one kind of operation do not name those of the other.
    for (const std::uint64_t kind : {FI_SEND | FI_RECV, direction_caps & ~(FI_SEND | FI_RECV)})
        if ((caps & kind) == 0) caps |= implied & kind;
    return caps;
}

/// Does a program ask for endpoints with several contexts?
bool wants_scalable(const fi_info* hints) noexcept {
    if (hints == nullptr) return false;
    const auto several = [](std::size_t count) { return count > 1 && count != FI_SHARED_CONTEXT; };
    return (hints->caps & scalable_caps) != 0 ||
           (hints->ep_attr != nullptr &&
            (several(hints->ep_attr->tx_ctx_cnt) || several(hints->ep_attr->rx_ctx_cnt))) ||
           (hints->domain_attr != nullptr &&
            (hints->domain_attr->max_ep_tx_ctx > 1 || hints->domain_attr->max_ep_rx_ctx > 1));
}

char* duplicate(const std::string& text) {
    return strdup(text.c_str());
}

Info make_info(fi_ep_type type, bool scalable) {
    Info info(fi_allocinfo());
    if (!info) throw std::bad_alloc();
    const mvich::Device::Limits& limits = mvich::Device::limits();

    info->addr_format = FI_SOCKADDR_IN;

    fi_tx_attr& transmit = *info->tx_attr;
    transmit.msg_order = message_order;
    transmit.inject_size = limits.inject_bytes;
    transmit.size = queue_depths().transmit;
    transmit.iov_limit = limits.max_pieces;
    transmit.rma_iov_limit = mvich::max_remote_pieces;

    fi_rx_attr& receive = *info->rx_attr;
    receive.msg_order = message_order;
    receive.size = queue_depths().receive;
    receive.iov_limit = limits.max_pieces;
    receive.total_buffered_recv = SIZE_MAX;

    fi_ep_attr& endpoint = *info->ep_attr;
    endpoint.type = type;
    endpoint.protocol = protocol;
    endpoint.protocol_version = 1;
    endpoint.max_msg_size = SIZE_MAX;
    endpoint.max_order_raw_size = limits.eager_bytes;
    endpoint.max_order_war_size = limits.eager_bytes;
    endpoint.max_order_waw_size = limits.eager_bytes;
    endpoint.mem_tag_format = ~0ULL;
    endpoint.tx_ctx_cnt = 1;
    endpoint.rx_ctx_cnt = 1;

    fi_domain_attr& domain = *info->domain_attr;
    domain.name = duplicate(base::Settings::get().text("VIA_MPI_DEVICE"));
    domain.threading = FI_THREAD_SAFE;
    domain.control_progress = FI_PROGRESS_MANUAL;
    domain.data_progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.av_type = FI_AV_MAP;
    domain.mr_key_size = 8;
    domain.cq_data_size = 8;
    domain.cq_cnt = many;
    domain.ep_cnt = many;
    domain.tx_ctx_cnt = many;
    domain.rx_ctx_cnt = many;
    domain.max_ep_tx_ctx = scalable ? max_contexts : 1;
    domain.max_ep_rx_ctx = scalable ? max_contexts : 1;
    domain.max_ep_stx_ctx = 1;
    domain.max_ep_srx_ctx = 1;
    domain.cntr_cnt = many;
    domain.mr_iov_limit = max_region_pieces;
    domain.caps = reach_caps | (type != FI_EP_MSG ? vector_caps : 0);
    domain.max_err_data = max_connection_data;
    domain.mr_cnt = many;

    if (type == FI_EP_DGRAM) {
        endpoint.max_msg_size = max_datagram_bytes;
        transmit.inject_size = std::min(transmit.inject_size, max_datagram_bytes);
        transmit.rma_iov_limit = 0;
    }

    info->fabric_attr->name = duplicate("via");
    return info;
}

void set_caps(fi_info& info, std::uint64_t caps) noexcept {
    info.caps = caps;
    info.tx_attr->caps = caps & (primary_caps | transmit_only | trigger_caps | scalable_caps);
    info.rx_attr->caps = caps & (primary_caps | receive_only | trigger_caps | scalable_caps);
}

/// What a program asks for and does not get is told at FI_LOG_LEVEL=info.
bool no(const char* what) {
    FI_INFO(&provider, FI_LOG_CORE, "no match: %s\n", what);
    return false;
}

bool fits(const fi_tx_attr& hint, const fi_tx_attr& have, std::uint64_t caps) {
    if (hint.caps & ~(caps & ~receive_only)) return no("tx_attr->caps");
    if (hint.op_flags & ~transmit_flags) return no("tx_attr->op_flags");
    if (hint.msg_order & ~message_order) return no("tx_attr->msg_order");
    if (hint.comp_order & ~have.comp_order) return no("tx_attr->comp_order");
    if (hint.inject_size > have.inject_size) return no("tx_attr->inject_size");
    if (hint.size > max_queue_depth) return no("tx_attr->size");
    if (hint.iov_limit > have.iov_limit) return no("tx_attr->iov_limit");
    if (hint.rma_iov_limit > have.rma_iov_limit) return no("tx_attr->rma_iov_limit");
    return true;
}

bool fits(const fi_rx_attr& hint, const fi_rx_attr& have, std::uint64_t caps) {
    if (hint.caps & ~(caps & ~transmit_only)) return no("rx_attr->caps");
    if (hint.op_flags & ~receive_flags) return no("rx_attr->op_flags");
    if (hint.msg_order & ~message_order) return no("rx_attr->msg_order");
    if (hint.comp_order & ~have.comp_order) return no("rx_attr->comp_order");
    if (hint.size > max_queue_depth) return no("rx_attr->size");
    if (hint.iov_limit > have.iov_limit) return no("rx_attr->iov_limit");
    return true;
}

bool fits(const fi_ep_attr& hint, const fi_ep_attr& have, std::size_t contexts) {
    if (hint.type != FI_EP_UNSPEC && hint.type != have.type) return false;
    if (hint.protocol != FI_PROTO_UNSPEC && hint.protocol != have.protocol)
        return no("ep_attr->protocol");
    if (hint.protocol_version > have.protocol_version) return no("ep_attr->protocol_version");
    if (hint.max_msg_size > have.max_msg_size) return no("ep_attr->max_msg_size");
    if (hint.msg_prefix_size > 0) return no("ep_attr->msg_prefix_size");
    if (hint.max_order_raw_size > have.max_order_raw_size ||
        hint.max_order_war_size > have.max_order_war_size ||
        hint.max_order_waw_size > have.max_order_waw_size)
        return no("ep_attr->max_order_*_size");
    if (hint.tx_ctx_cnt > contexts && hint.tx_ctx_cnt != FI_SHARED_CONTEXT)
        return no("ep_attr->tx_ctx_cnt");
    if (hint.rx_ctx_cnt > contexts && hint.rx_ctx_cnt != FI_SHARED_CONTEXT)
        return no("ep_attr->rx_ctx_cnt");
    if (hint.auth_key_size != 0) return no("ep_attr->auth_key");
    return true;
}

bool known_region_mode(int mode, std::uint32_t version) noexcept {
    if (version >= first_with_mode_bits) {
        // The old enumerators are not to be mixed with bits.
        const int old = mode & (FI_MR_BASIC | FI_MR_SCALABLE);
        return old == 0 || (mode == old && (old == FI_MR_BASIC || old == FI_MR_SCALABLE));
    }
    return mode == FI_MR_UNSPEC || mode == FI_MR_BASIC || mode == FI_MR_SCALABLE;
}

bool fits(const fi_domain_attr& hint, const fi_domain_attr& have, std::uint32_t version) {
    if (hint.name != nullptr && std::strcmp(hint.name, have.name) != 0)
        return no("domain_attr->name");
    if (hint.threading > FI_THREAD_ENDPOINT) return no("domain_attr->threading");
    if (hint.control_progress > FI_PROGRESS_MANUAL) return no("domain_attr->control_progress");
    if (hint.data_progress > FI_PROGRESS_MANUAL) return no("domain_attr->data_progress");
    if (hint.resource_mgmt > FI_RM_ENABLED) return no("domain_attr->resource_mgmt");
    if (hint.av_type > FI_AV_TABLE) return no("domain_attr->av_type");
    if (!known_region_mode(hint.mr_mode, version)) return no("domain_attr->mr_mode");
    if (hint.mr_key_size > have.mr_key_size) return no("domain_attr->mr_key_size");
    if (hint.cq_data_size > have.cq_data_size) return no("domain_attr->cq_data_size");
    if (hint.cq_cnt > have.cq_cnt || hint.ep_cnt > have.ep_cnt || hint.cntr_cnt > have.cntr_cnt)
        return no("domain_attr->*_cnt");
    if (hint.max_ep_tx_ctx > have.max_ep_tx_ctx || hint.max_ep_rx_ctx > have.max_ep_rx_ctx ||
        hint.max_ep_stx_ctx > have.max_ep_stx_ctx || hint.max_ep_srx_ctx > have.max_ep_srx_ctx)
        return no("domain_attr->max_ep_*_ctx");
    if (hint.mr_iov_limit > have.mr_iov_limit) return no("domain_attr->mr_iov_limit");
    if (hint.caps & ~have.caps) return no("domain_attr->caps");
    if (hint.auth_key_size != 0) return no("domain_attr->auth_key");
    return true;
}

bool fits(const fi_info& hints, const fi_info& have, std::uint32_t version) {
    if (hints.ep_attr != nullptr &&
        !fits(*hints.ep_attr, *have.ep_attr, have.domain_attr->max_ep_tx_ctx))
        return false;
    if (hints.caps & ~caps_of(have.ep_attr->type)) return no("caps");
    if (!is_known_format(hints.addr_format)) return no("addr_format");
    if (hints.tx_attr != nullptr && !fits(*hints.tx_attr, *have.tx_attr, have.caps)) return false;
    if (hints.rx_attr != nullptr && !fits(*hints.rx_attr, *have.rx_attr, have.caps)) return false;
    if (hints.domain_attr != nullptr && !fits(*hints.domain_attr, *have.domain_attr, version))
        return false;
    if (hints.fabric_attr != nullptr && hints.fabric_attr->name != nullptr &&
        std::strcmp(hints.fabric_attr->name, have.fabric_attr->name) != 0)
        return no("fabric_attr->name");
    return true;
}

template <class Value>
void take(Value& mine, Value hint) noexcept {
    if (hint != Value{}) mine = hint;
}

/// Where several answers are right, the program's own wish is the answer.
void follow(const fi_info& hints, fi_info& info) noexcept {
    if (hints.addr_format != FI_FORMAT_UNSPEC && hints.addr_format != FI_SOCKADDR)
        info.addr_format = hints.addr_format;
    info.handle = hints.handle;
    if (hints.tx_attr != nullptr) {
        info.tx_attr->op_flags = hints.tx_attr->op_flags;
        if (hints.tx_attr->caps != 0) info.tx_attr->caps = hints.tx_attr->caps;
        take(info.tx_attr->size, hints.tx_attr->size);
        info.tx_attr->tclass = hints.tx_attr->tclass;
    }
    if (hints.rx_attr != nullptr) {
        info.rx_attr->op_flags = hints.rx_attr->op_flags;
        if (hints.rx_attr->caps != 0) info.rx_attr->caps = hints.rx_attr->caps;
        take(info.rx_attr->size, hints.rx_attr->size);
    }
    if (hints.ep_attr != nullptr) {
        take(info.ep_attr->mem_tag_format, hints.ep_attr->mem_tag_format);
        take(info.ep_attr->tx_ctx_cnt, hints.ep_attr->tx_ctx_cnt);
        take(info.ep_attr->rx_ctx_cnt, hints.ep_attr->rx_ctx_cnt);
    }
    if (hints.domain_attr != nullptr) {
        take(info.domain_attr->threading, hints.domain_attr->threading);
        take(info.domain_attr->control_progress, hints.domain_attr->control_progress);
        take(info.domain_attr->data_progress, hints.domain_attr->data_progress);
        take(info.domain_attr->resource_mgmt, hints.domain_attr->resource_mgmt);
        take(info.domain_attr->av_type, hints.domain_attr->av_type);
        info.domain_attr->domain = hints.domain_attr->domain;
    }
    if (hints.fabric_attr != nullptr) info.fabric_attr->fabric = hints.fabric_attr->fabric;
}

int mode_for(std::uint32_t version, const fi_info* hints) noexcept {
    const int hint =
        hints != nullptr && hints->domain_attr != nullptr ? hints->domain_attr->mr_mode : 0;
    if (hint == FI_MR_BASIC || hint == FI_MR_SCALABLE) return hint;
    if (version < first_with_mode_bits) return FI_MR_SCALABLE;
    // None is needed. A program that names just these counts on them; one that can live with any
    // mode gets the simplest.
    return hint & ~region_modes ? 0 : hint;
}

/// Addresses of an info: who asks for itself (FI_SOURCE) or for a peer.
struct Names {
    std::optional<mvich::HostPort> source;
    std::optional<mvich::HostPort> destination;
};

std::optional<Names> find_names(const char* node, const char* service, std::uint64_t flags,
                                const fi_info* hints) {
    Names names;
    const auto from_hint = [&](const void* address,
                               std::size_t bytes) -> std::optional<mvich::HostPort> {
        return read_address(hints->addr_format, address, bytes);
    };
    const bool named = node != nullptr || service != nullptr;
    if (named) {
        const auto name = resolve(node, service, (flags & FI_NUMERICHOST) != 0);
        if (!name) {
            no("node or service: no such name");
            return std::nullopt;
        }
        (flags & FI_SOURCE ? names.source : names.destination) = name;
    }
    if (hints != nullptr && hints->src_addr != nullptr && !(named && (flags & FI_SOURCE))) {
        names.source = from_hint(hints->src_addr, hints->src_addrlen);
        if (!names.source) return std::nullopt;
    }
    if (hints != nullptr && hints->dest_addr != nullptr && !(named && !(flags & FI_SOURCE))) {
        names.destination = from_hint(hints->dest_addr, hints->dest_addrlen);
        if (!names.destination) return std::nullopt;
    }
    if (!names.source) names.source = local_address(names.destination);
    return names;
}

int get_info_or_throw(std::uint32_t version, const char* node, const char* service,
                      std::uint64_t flags, const fi_info* hints, fi_info** result) {
    if (flags & core_provider_only) return -FI_ENODATA;
    const bool attributes_only = (flags & FI_PROV_ATTR_ONLY) != 0;
    std::optional<Names> names;
    Info first;
    fi_info* last = nullptr;
    // Programs that name no type, MPI libraries among them, take the first.
    for (const fi_ep_type type : {FI_EP_RDM, FI_EP_MSG, FI_EP_DGRAM}) {
        Info info = make_info(type, type == FI_EP_RDM && wants_scalable(hints));
        set_caps(*info, granted_caps(type, hints));
        if (hints != nullptr) {
            if (!fits(*hints, *info, version)) continue;
            follow(*hints, *info);
        }
        info->domain_attr->mr_mode = mode_for(version, hints);
        if (!attributes_only) {
            // Only now: names are looked up for programs that can use this provider.
            if (!names) names = find_names(node, service, flags, hints);
            if (!names) return -FI_ENODATA;
            if (!copy_address(info->addr_format, *names->source, info->src_addr, info->src_addrlen))
                return -FI_ENOMEM;
            if (names->destination && !copy_address(info->addr_format, *names->destination,
                                                    info->dest_addr, info->dest_addrlen))
                return -FI_ENOMEM;
        }
        fi_info* const added = info.get();
        if (last == nullptr)
            first = std::move(info);
        else
            last->next = info.release();
        last = added;
    }
    if (!first) return -FI_ENODATA;
    *result = first.release();
    return 0;
}

}  // namespace

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info) {
    return guarded([&] { return get_info_or_throw(version, node, service, flags, hints, info); });
}

RegionMode region_mode(int mr_mode) noexcept {
    if (mr_mode == FI_MR_BASIC) return {true, true};
    if (mr_mode == FI_MR_SCALABLE) return {false, false};
    return {(mr_mode & FI_MR_VIRT_ADDR) != 0, (mr_mode & FI_MR_PROV_KEY) != 0};
}

}  // namespace via::ofi
