// SPDX-License-Identifier: BSD-3-Clause
// A process's attachment to the kernel agent viad. All calls are synchronous requests over one
// Unix socket and thread-safe; whichever caller waits first reads the socket for all (there is no
// thread of its own, so a call from a callback can not deadlock). If the agent is gone, the call
// that notices starts a new one, attaches again, restores what the agent must know (regions at the
// same handles, kmem arenas and blocks, VIs, connections) and goes on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "ka/rmmt.hpp"

namespace via::ka {

inline constexpr std::size_t max_host_address_bytes = 20;
inline constexpr std::size_t max_discriminator_bytes = 64;
inline constexpr std::size_t device_parameter_bytes = 448;

/// What carries a connection. An offer names one; a wait takes those of a mask.
using Fabric = std::uint32_t;
inline constexpr Fabric fabric_shm = 1;
inline constexpr Fabric fabric_net = 2;
inline constexpr Fabric all_fabrics = fabric_shm | fabric_net;

/// Known to the two ends of a connection only; secures what they send each other.
using SessionKey = std::array<std::uint8_t, 32>;

/// A VIPL network address: host part and discriminator, compared by length and bytes. The host part
/// is opaque but for the forms in host_address.hpp, of which several mean one host.
struct NetAddress {
    std::uint8_t host_bytes = 0;
    std::uint8_t discriminator_bytes = 0;
    std::array<std::uint8_t, max_host_address_bytes> host{};
    std::array<std::uint8_t, max_discriminator_bytes> discriminator{};
    friend bool operator==(const NetAddress&, const NetAddress&) = default;
};

/// What the two ends of a connection tell each other. Unused trailing bytes of arrays are zero.
struct EndpointAttributes {
    std::uint64_t max_transfer_bytes = 0;
    std::uint64_t quality_of_service = 0;
    std::uint32_t reliability = 0;  ///< one VIPL reliability bit
    std::uint32_t rights = 0;  ///< right_rdma_write | right_rdma_read: what the VI lets peers do
    ProtectionTag tag = null_tag;  ///< of this end's VI; peers check RDMA targets against it
    std::uint32_t flags = 0;       ///< endpoint_any_tag
};
/// The VI's tag is null and null means "any region of this process" (VIA_STRICT_PTAG=0).
inline constexpr std::uint32_t endpoint_any_tag = 1;

using DeviceParameters = std::array<std::uint8_t, device_parameter_bytes>;

/// What a process shares with its peers: given to the agent at attach, by the agent to peers at
/// connect. Descriptors stay owned by the caller, who keeps them open as long as the client lives.
struct ProcessResources {
    int doorbell_memory = -1;  ///< memfd, page(s) peers ring
    int doorbell_event = -1;   ///< eventfd that wakes the service thread
    int counters = -1;         ///< memfd of counters; only handed to tools of the same user
};

/// The process at the other end, as the agent vouches for it. On another host: nothing but zeros.
struct PeerGrant {
    std::uint64_t process = 0;  ///< number of the process at this agent; the same for all its VIs
    std::uint64_t agent_epoch = 0;  ///< changes with every agent started
    std::int32_t pid = 0;
    std::uint32_t uid = 0;
    std::uint32_t rmmt_epoch = 0;  ///< of the table below
    base::UniqueFd pidfd;
    base::UniqueFd rmmt;  ///< rmmt_bytes, mappable read-only
    base::UniqueFd doorbell_memory;
    base::UniqueFd doorbell_event;
};

/// A connection as both ends get it.
struct Established {
    std::uint64_t connection = 0;
    std::array<std::uint8_t, 16> secret{};  ///< proves the connection to a later agent
    bool requester = false;  ///< the other end is the acceptor; for peers the lower request number
    base::UniqueFd channel;  ///< zeroed memfd of channel_bytes, mapped by both ends; none if 0
    std::uint64_t channel_bytes = 0;
    SessionKey session_key{};
    EndpointAttributes remote_attributes;
    NetAddress remote_address;
    DeviceParameters remote_parameters{};
    PeerGrant peer;
};

struct ConnectOffer {
    std::uint32_t vi = 0;  ///< from create_vi
    NetAddress local;
    NetAddress remote;
    EndpointAttributes attributes;
    DeviceParameters parameters{};
    std::uint64_t channel_bytes = 0;  ///< the requester's wish; the agent creates that memory
    std::uint32_t fabric = fabric_shm;
    std::uint32_t reserved = 0;
};

struct IncomingRequest {
    std::uint64_t request = 0;
    NetAddress remote;
    EndpointAttributes remote_attributes;
    DeviceParameters remote_parameters{};
    std::uint64_t channel_bytes = 0;
    std::uint32_t fabric = fabric_shm;
};

struct KmemBlock {
    std::byte* address = nullptr;
    std::uint64_t bytes = 0;  ///< rounded up to what the buddy allocator gave
    std::uint32_t arena = no_arena;
    std::uint64_t arena_offset = 0;
};

struct ArenaGrant {
    base::UniqueFd file;
    std::uint64_t bytes = 0;
};

struct ProcessStatus {
    std::int32_t pid = 0;
    std::uint32_t uid = 0;
    std::string program;
    std::uint64_t attached_seconds = 0;
    std::uint32_t vis = 0;
    std::uint32_t connections = 0;
    std::uint32_t waiting = 0;  ///< VipConnectWait and peer requests pending
    std::uint32_t regions = 0;
    std::uint64_t registered_bytes = 0;
    std::uint64_t kmem_bytes = 0;
};

struct AgentStatus {
    std::int32_t pid = 0;
    std::uint32_t uid = 0;
    std::string version;
    std::string socket;
    bool on_demand = false;  ///< will exit when idle
    std::uint64_t uptime_seconds = 0;
    std::uint64_t idle_seconds_limit = 0;
    bool huge_pages = false;
    std::uint16_t net_port = 0;  ///< UDP, between hosts
    bool net_key = false;        ///< the cluster has a key
    std::string net_problem;     ///< why other hosts can not be reached; empty: they can
    std::vector<ProcessStatus> processes;
};

/// The agent serves every process that may use it, but a process sees only those of its own user
/// (root sees all).
class AgentClient {
  public:
    /// Attaches, starting viad if none answers and VIA_AGENT_START allows it. `resources` without
    /// descriptors attaches as an observer (tools): it can ask for status and counters only.
    [[nodiscard]] static base::Result<std::unique_ptr<AgentClient>> attach(
        const ProcessResources& resources, base::Deadline deadline);
    /// For tools that must not start one. NotFound: no agent runs.
    [[nodiscard]] static base::Result<std::unique_ptr<AgentClient>> attach_if_running(
        const ProcessResources& resources, base::Deadline deadline);
    virtual ~AgentClient() = default;

    /// The UDP port of this host's agent: with it a device makes its network address.
    [[nodiscard]] virtual std::uint16_t net_port() const noexcept { return 0; }

    // Memory. The view stays valid for the life of the client; after a change of agent its
    // contents are those of the new table (the epoch changes, handles stay).
    [[nodiscard]] virtual RmmtView rmmt() const noexcept = 0;
    /// Counts the tables this client has had; peers compare it with the one they mapped.
    [[nodiscard]] virtual std::uint32_t rmmt_epoch() const noexcept = 0;
    [[nodiscard]] virtual base::Result<MemoryHandle> register_memory(const void* address,
                                                                     std::uint64_t bytes,
                                                                     ProtectionTag tag,
                                                                     std::uint32_t rights) = 0;
    [[nodiscard]] virtual base::Result<void> deregister_memory(MemoryHandle handle) = 0;
    [[nodiscard]] virtual base::Result<void> change_memory(MemoryHandle handle, ProtectionTag tag,
                                                           std::uint32_t rights) = 0;

    // kmem: memory that peers can map. One arena belongs to one process and one tag.
    [[nodiscard]] virtual base::Result<KmemBlock> allocate_kmem(std::uint64_t bytes,
                                                                ProtectionTag tag) = 0;
    [[nodiscard]] virtual base::Result<void> free_kmem(const void* address) = 0;
    /// The same without waiting and without memory, for a block that nobody has seen yet.
    virtual void abandon_kmem(const void* address) noexcept = 0;

    // VI life cycle, for limits and for people who look.
    [[nodiscard]] virtual base::Result<std::uint32_t> create_vi() = 0;
    virtual void destroy_vi(std::uint32_t vi) noexcept = 0;
    virtual void disconnected(std::uint64_t connection) noexcept = 0;

    // Client/server connection.
    /// `owner` is for cancel_waits(), which ends the wait with InvalidArgument. `fabrics`: a mask
    /// of those whose requests it takes.
    [[nodiscard]] virtual base::Result<IncomingRequest> connect_wait(
        const NetAddress& local, base::Deadline deadline, const void* owner = nullptr,
        std::uint32_t fabrics = fabric_shm) = 0;
    virtual void cancel_waits(const void* owner) noexcept = 0;
    /// Timeout: the requester gave up meanwhile. The request is consumed unless the error is
    /// InvalidState/InvalidArgument.
    [[nodiscard]] virtual base::Result<Established> connect_accept(std::uint64_t request,
                                                                   const ConnectOffer& offer,
                                                                   base::Deadline deadline) = 0;
    [[nodiscard]] virtual base::Result<void> connect_reject(std::uint64_t request) = 0;
    /// Errors: NoMatch (nobody waits there), Rejected, Timeout, NotReachable (another host).
    [[nodiscard]] virtual base::Result<Established> connect_request(const ConnectOffer& offer,
                                                                    base::Deadline deadline) = 0;

    // Peer-to-peer connection: both ends ask, order does not matter, addresses match crosswise.
    [[nodiscard]] virtual base::Result<std::uint64_t> peer_request(const ConnectOffer& offer,
                                                                   base::Deadline deadline) = 0;
    /// Empty: not yet. Otherwise the outcome, once; the request is gone then.
    [[nodiscard]] virtual std::optional<base::Result<Established>> peer_poll(
        std::uint64_t request) = 0;
    /// Blocks until the outcome; the deadline given to peer_request governs.
    [[nodiscard]] virtual base::Result<Established> peer_wait(std::uint64_t request) = 0;
    virtual void peer_cancel(std::uint64_t request) noexcept = 0;

    // What a connection lets this process see of its peer.
    [[nodiscard]] virtual base::Result<ArenaGrant> peer_arena(std::uint64_t connection,
                                                              std::uint32_t arena) = 0;
    /// The peer's present table and its epoch (after a change of agent).
    struct RmmtGrant {
        base::UniqueFd file;
        std::uint32_t epoch = 0;
    };
    [[nodiscard]] virtual base::Result<RmmtGrant> peer_rmmt(std::uint64_t connection) = 0;
    /// A region of this process by the agent's word instead of the table's: what a post costs
    /// without the UTLB.
    [[nodiscard]] virtual base::Result<Region> translate(MemoryHandle) {
        return {base::Code::NotSupported, "there is no kernel agent to ask"};
    }

    /// Connections of this process whose other end has left without the channel saying so: it
    /// disconnected, could not take the connection up, or came back to a new agent without it. Each
    /// is told once. For the service thread, when socket() is readable.
    [[nodiscard]] virtual std::vector<std::uint64_t> lost_connections() { return {}; }
    /// Whether that is known of this connection: for whoever could not be told, because it was only
    /// just taking the connection up.
    [[nodiscard]] virtual bool is_lost(std::uint64_t) { return false; }

    /// What users have wanted of this process since this was asked last. For the service thread,
    /// as above.
    struct LinkPolicyWish {
        std::string policy;
        std::uint32_t vi_slot = 0;  ///< of the counters page; 0: all connections
    };
    [[nodiscard]] virtual std::vector<LinkPolicyWish> link_policy_wishes() { return {}; }

    // For people.
    [[nodiscard]] virtual base::Result<AgentStatus> status() = 0;
    [[nodiscard]] virtual base::Result<base::UniqueFd> counters_of(std::int32_t pid) = 0;
    /// Another process of the same user is told; whether it follows is seen in its counters.
    [[nodiscard]] virtual base::Result<void> wish_link_policy(std::int32_t pid,
                                                              const LinkPolicyWish& wish) {
        (void)pid, (void)wish;
        return base::Result<void>(base::Code::NotSupported, "there is no kernel agent to ask");
    }
    [[nodiscard]] virtual base::Result<void> stop_agent() = 0;

    /// A descriptor that becomes readable when the agent goes away (and when it has something to
    /// say that nobody waits for); for the service thread, which then calls lost_connections() and
    /// link_policy_wishes() and, while attached() is false, reattach_if_running() now and then. It
    /// is the same for the life of the client.
    [[nodiscard]] virtual int socket() const noexcept = 0;
    [[nodiscard]] virtual bool attached() const noexcept = 0;
    virtual bool reattach_if_running() noexcept = 0;
};

}  // namespace via::ka
