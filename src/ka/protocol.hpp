// SPDX-License-Identifier: BSD-3-Clause
// What a process and the kernel agent say to each other: fixed-size structures over a
// SOCK_SEQPACKET socket, one per message. Both ends run on one host, so the structures travel as
// they lie in memory. The decoders are pure and trust nothing: whatever they return is in range.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"

namespace via::ka {

inline constexpr std::uint32_t protocol_magic = 0x41414956;  // "VIAA"
inline constexpr std::uint16_t protocol_version = 4;
/// No message is longer.
inline constexpr std::size_t max_message_bytes = 4096;
/// A timeout that never comes, on the wire.
inline constexpr std::uint64_t timeout_never = ~std::uint64_t{0};

enum class MessageKind : std::uint16_t {
    // requests
    Attach = 1,
    Register,
    Deregister,
    ChangeMemory,
    AllocateKmem,
    FreeKmem,
    CreateVi,
    DestroyVi,
    Disconnected,
    ConnectWait,
    ConnectAccept,
    ConnectReject,
    ConnectRequest,
    PeerRequest,
    Cancel,
    PeerArena,
    PeerRmmt,
    Status,
    CountersOf,
    Stop,
    RestoreArena,
    RestoreBlocks,
    RestoreRegions,
    RestoreVis,
    RestoreConnections,
    RestoreDone,
    SetLinkPolicy,
    Translate,
    // replies
    Failed = 128,
    Done,
    Attached,
    Registered,
    KmemAllocated,
    KmemFreed,
    ViCreated,
    Incoming,
    Established,
    ArenaGranted,
    RmmtGranted,
    StatusPage,
    CountersGranted,
    Translated,
    // unasked
    ConnectionsGone,
    LinkPolicyWanted,
};

/// The first bytes of every message, in every version of the protocol.
struct MessageHeader {
    std::uint32_t magic = protocol_magic;
    std::uint16_t version = protocol_version;
    std::uint16_t kind = 0;
    std::uint64_t id = 0;  ///< of the request; a reply repeats it
};
static_assert(sizeof(MessageHeader) == 16);

/// Zero-terminated text of bounded length; the bytes after the zero are zero too.
template <std::size_t n>
struct FixedText {
    std::array<char, n> bytes{};

    FixedText() = default;
    explicit FixedText(std::string_view text) noexcept {
        const std::size_t length = text.size() < n ? text.size() : n - 1;
        for (std::size_t i = 0; i < length; ++i)
            bytes[i] = text[i];
    }
    [[nodiscard]] bool terminated() const noexcept { return bytes[n - 1] == '\0'; }
    [[nodiscard]] std::string text() const { return std::string(bytes.data()); }
};

using Secret = std::array<std::uint8_t, 16>;

// The API's own structures travel as they are: they have no padding.
static_assert(sizeof(NetAddress) == 86 && alignof(NetAddress) == 1);
static_assert(sizeof(EndpointAttributes) == 32);
static_assert(sizeof(ConnectOffer) == 672 && offsetof(ConnectOffer, attributes) == 176 &&
              offsetof(ConnectOffer, parameters) == 208 &&
              offsetof(ConnectOffer, channel_bytes) == 656 &&
              offsetof(ConnectOffer, fabric) == 664);
static_assert(std::is_trivially_copyable_v<ConnectOffer>);

// ---- requests

/// Descriptors, in this order, if their bit is set.
inline constexpr std::uint32_t attach_doorbell_memory = 1;
inline constexpr std::uint32_t attach_doorbell_event = 2;
inline constexpr std::uint32_t attach_counters = 4;

struct AttachRequest {
    static constexpr auto kind = MessageKind::Attach;
    std::uint32_t descriptors = 0;  ///< attach_… bits; none: an observer
    std::uint32_t rmmt_epoch = 1;   ///< counts the tables this process has had
    std::uint32_t arena_floor = 0;  ///< arenas up to this number have existed
    std::uint32_t restoring = 0;    ///< 1: Restore… messages follow, then RestoreDone
    std::uint64_t instance = 0;     ///< random, of this AgentClient; the same at every agent
    FixedText<64> program;
};
static_assert(sizeof(AttachRequest) == 88);

struct RegisterRequest {
    static constexpr auto kind = MessageKind::Register;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t arena_offset = 0;
    ProtectionTag tag = null_tag;
    std::uint32_t rights = 0;
    std::uint32_t arena = no_arena;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(RegisterRequest) == 40);

struct DeregisterRequest {
    static constexpr auto kind = MessageKind::Deregister;
    MemoryHandle handle = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(DeregisterRequest) == 8);

struct ChangeMemoryRequest {
    static constexpr auto kind = MessageKind::ChangeMemory;
    MemoryHandle handle = 0;
    ProtectionTag tag = null_tag;
    std::uint32_t rights = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(ChangeMemoryRequest) == 16);

/// Which region is it? Asked at each post where the user agent may not read the table by itself.
struct TranslateRequest {
    static constexpr auto kind = MessageKind::Translate;
    MemoryHandle handle = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(TranslateRequest) == 8);

struct AllocateKmemRequest {
    static constexpr auto kind = MessageKind::AllocateKmem;
    std::uint64_t bytes = 0;
    ProtectionTag tag = null_tag;
    std::uint32_t ordinary_pages = 0;  ///< 1: no huge pages, they could not be allocated
};
static_assert(sizeof(AllocateKmemRequest) == 16);

struct FreeKmemRequest {
    static constexpr auto kind = MessageKind::FreeKmem;
    std::uint64_t offset = 0;
    std::uint32_t arena = no_arena;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(FreeKmemRequest) == 16);

struct CreateViRequest {
    static constexpr auto kind = MessageKind::CreateVi;
    std::uint64_t reserved = 0;
};

struct DestroyViNotice {
    static constexpr auto kind = MessageKind::DestroyVi;
    std::uint32_t vi = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(DestroyViNotice) == 8);

struct DisconnectedNotice {
    static constexpr auto kind = MessageKind::Disconnected;
    std::uint64_t connection = 0;
};

struct ConnectWaitRequest {
    static constexpr auto kind = MessageKind::ConnectWait;
    std::uint64_t timeout_ns = 0;
    std::uint32_t fabrics = fabric_shm;  ///< a mask
    NetAddress local;
    std::array<std::uint8_t, 6> reserved{};
};
static_assert(sizeof(ConnectWaitRequest) == 104);

struct ConnectAcceptRequest {
    static constexpr auto kind = MessageKind::ConnectAccept;
    std::uint64_t request = 0;
    ConnectOffer offer;
};
static_assert(sizeof(ConnectAcceptRequest) == 680);

struct ConnectRejectRequest {
    static constexpr auto kind = MessageKind::ConnectReject;
    std::uint64_t request = 0;
};

struct ConnectRequestRequest {
    static constexpr auto kind = MessageKind::ConnectRequest;
    std::uint64_t timeout_ns = 0;
    /// How long to wait for a server that is not waiting yet: 0 but after a change of agent.
    std::uint64_t patience_ns = 0;
    ConnectOffer offer;
};
static_assert(sizeof(ConnectRequestRequest) == 688);

struct PeerRequestRequest {
    static constexpr auto kind = MessageKind::PeerRequest;
    std::uint64_t timeout_ns = 0;
    ConnectOffer offer;
};
static_assert(sizeof(PeerRequestRequest) == 680);

/// Of a request that has had no reply yet; it gets none then.
struct CancelNotice {
    static constexpr auto kind = MessageKind::Cancel;
    std::uint64_t request_id = 0;
};

struct PeerArenaRequest {
    static constexpr auto kind = MessageKind::PeerArena;
    std::uint64_t connection = 0;
    std::uint32_t arena = no_arena;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(PeerArenaRequest) == 16);

struct PeerRmmtRequest {
    static constexpr auto kind = MessageKind::PeerRmmt;
    std::uint64_t connection = 0;
};

struct StatusRequest {
    static constexpr auto kind = MessageKind::Status;
    std::uint64_t after_process = 0;  ///< number of the last process seen; 0: from the start
};

struct CountersOfRequest {
    static constexpr auto kind = MessageKind::CountersOf;
    std::int32_t pid = 0;
    std::uint32_t reserved = 0;
};

struct StopRequest {
    static constexpr auto kind = MessageKind::Stop;
    std::uint64_t reserved = 0;
};

/// With the arena's descriptor.
struct RestoreArenaRequest {
    static constexpr auto kind = MessageKind::RestoreArena;
    std::uint64_t bytes = 0;
    std::uint32_t arena = no_arena;
    ProtectionTag tag = null_tag;
    std::uint32_t dedicated = 0;  ///< 1: made for one large block
    std::uint32_t reserved = 0;
};
static_assert(sizeof(RestoreArenaRequest) == 24);

struct BlockRecord {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

struct RestoreBlocksRequest {
    static constexpr auto kind = MessageKind::RestoreBlocks;
    static constexpr std::uint32_t capacity = 128;
    std::uint32_t arena = no_arena;
    std::uint32_t count = 0;
    std::array<BlockRecord, capacity> blocks{};
};
static_assert(sizeof(RestoreBlocksRequest) == 2056);

struct RegionRecord {
    MemoryHandle handle = 0;
    std::uint32_t reserved = 0;
    RegisterRequest region;
};
static_assert(sizeof(RegionRecord) == 48);

struct RestoreRegionsRequest {
    static constexpr auto kind = MessageKind::RestoreRegions;
    static constexpr std::uint32_t capacity = 80;
    std::uint32_t count = 0;
    std::uint32_t reserved = 0;
    std::array<RegionRecord, capacity> regions{};
};
static_assert(sizeof(RestoreRegionsRequest) == 3848);

struct RestoreVisRequest {
    static constexpr auto kind = MessageKind::RestoreVis;
    static constexpr std::uint32_t capacity = 512;
    std::uint32_t count = 0;
    std::uint32_t reserved = 0;
    std::array<std::uint32_t, capacity> vis{};
};
static_assert(sizeof(RestoreVisRequest) == 2056);

/// In a ConnectionRecord's flags: the other end is on another host, no agent here knows it.
inline constexpr std::uint32_t connection_remote = 0x80000000;

struct ConnectionRecord {
    std::uint64_t connection = 0;
    Secret secret{};
    std::uint32_t vi = 0;
    ProtectionTag tag = null_tag;  ///< of this end's VI
    std::uint32_t flags = 0;       ///< endpoint_any_tag, connection_remote
    std::uint32_t peer_uid = 0;
    std::uint64_t peer_instance = 0;
};
static_assert(sizeof(ConnectionRecord) == 48);

struct RestoreConnectionsRequest {
    static constexpr auto kind = MessageKind::RestoreConnections;
    static constexpr std::uint32_t capacity = 80;
    std::uint32_t count = 0;
    std::uint32_t reserved = 0;
    std::array<ConnectionRecord, capacity> connections{};
};
static_assert(sizeof(RestoreConnectionsRequest) == 3848);

struct RestoreDoneRequest {
    static constexpr auto kind = MessageKind::RestoreDone;
    std::uint64_t reserved = 0;
};

/// What a user wants of a process of his; the process hears it as LinkPolicyEvent.
struct SetLinkPolicyRequest {
    static constexpr auto kind = MessageKind::SetLinkPolicy;
    std::int32_t pid = 0;
    std::uint32_t vi_slot = 0;  ///< of its counters page; 0: all its connections
    FixedText<16> policy;
};
static_assert(sizeof(SetLinkPolicyRequest) == 24);

// ---- replies

struct FailedReply {
    static constexpr auto kind = MessageKind::Failed;
    std::uint32_t code = 0;  ///< base::Code
    std::uint32_t reserved = 0;
    FixedText<400> sentence;
};
static_assert(sizeof(FailedReply) == 408);

struct DoneReply {
    static constexpr auto kind = MessageKind::Done;
    std::uint64_t reserved = 0;
};

/// With the descriptor of the process's RMMT, unless it is an observer.
struct AttachedReply {
    static constexpr auto kind = MessageKind::Attached;
    std::uint64_t agent_epoch = 0;
    std::uint64_t process = 0;
    std::uint32_t net_port = 0;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(AttachedReply) == 24);

struct RegisteredReply {
    static constexpr auto kind = MessageKind::Registered;
    MemoryHandle handle = 0;
    std::uint32_t reserved = 0;
};

/// With the arena's descriptor if it is new to the process.
struct KmemAllocatedReply {
    static constexpr auto kind = MessageKind::KmemAllocated;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t arena_bytes = 0;
    std::uint32_t arena = no_arena;
    ProtectionTag tag = null_tag;
    std::uint8_t new_arena = 0;
    std::uint8_t huge_pages = 0;
    std::uint8_t dedicated = 0;
    std::array<std::uint8_t, 5> reserved{};
};
static_assert(sizeof(KmemAllocatedReply) == 40);

struct KmemFreedReply {
    static constexpr auto kind = MessageKind::KmemFreed;
    std::uint64_t offset = 0;
    std::uint32_t arena = 0;
    std::uint32_t arena_released = 0;
};

struct ViCreatedReply {
    static constexpr auto kind = MessageKind::ViCreated;
    std::uint32_t vi = 0;
    std::uint32_t reserved = 0;
};

struct IncomingReply {
    static constexpr auto kind = MessageKind::Incoming;
    std::uint64_t request = 0;
    std::uint64_t channel_bytes = 0;
    EndpointAttributes remote_attributes;
    DeviceParameters remote_parameters{};
    std::uint32_t fabric = fabric_shm;
    NetAddress remote;
    std::array<std::uint8_t, 6> reserved{};
};
static_assert(sizeof(IncomingReply) == 592);

/// Descriptors by bit, in this order: the channel; the peer's pidfd and RMMT; its doorbell memory;
/// its doorbell event. A process on another host is none that descriptors could come from.
inline constexpr std::uint32_t established_channel = 1;
inline constexpr std::uint32_t established_process = 2;
inline constexpr std::uint32_t established_doorbell_memory = 4;
inline constexpr std::uint32_t established_doorbell_event = 8;

struct EstablishedReply {
    static constexpr auto kind = MessageKind::Established;
    std::uint64_t connection = 0;
    Secret secret{};
    std::uint64_t channel_bytes = 0;
    std::uint64_t peer_process = 0;
    std::uint64_t agent_epoch = 0;
    std::uint64_t peer_instance = 0;
    std::int32_t peer_pid = 0;
    std::uint32_t peer_uid = 0;
    std::uint32_t peer_rmmt_epoch = 0;
    std::uint32_t descriptors = 0;
    SessionKey session_key{};
    EndpointAttributes remote_attributes;
    DeviceParameters remote_parameters{};
    NetAddress remote_address;
    std::uint8_t requester = 0;
    std::uint8_t reserved = 0;

    [[nodiscard]] std::size_t descriptor_count() const noexcept {
        // The peer's process is two.
        return static_cast<std::size_t>(__builtin_popcount(descriptors)) +
               ((descriptors & established_process) != 0 ? 1 : 0);
    }
};
static_assert(sizeof(EstablishedReply) == 672);

/// With the arena's descriptor.
struct ArenaGrantedReply {
    static constexpr auto kind = MessageKind::ArenaGranted;
    std::uint64_t bytes = 0;
};

/// With the table's descriptor.
struct RmmtGrantedReply {
    static constexpr auto kind = MessageKind::RmmtGranted;
    std::uint32_t epoch = 0;
    std::uint32_t reserved = 0;
};

struct TranslatedReply {
    static constexpr auto kind = MessageKind::Translated;
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint64_t arena_offset = 0;
    ProtectionTag tag = null_tag;
    std::uint32_t rights = 0;
    std::uint32_t arena = no_arena;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(TranslatedReply) == 40);

struct ProcessRecord {
    std::uint64_t process = 0;
    std::uint64_t attached_seconds = 0;
    std::uint64_t registered_bytes = 0;
    std::uint64_t kmem_bytes = 0;
    std::int32_t pid = 0;
    std::uint32_t uid = 0;
    std::uint32_t vis = 0;
    std::uint32_t connections = 0;
    std::uint32_t waiting = 0;
    std::uint32_t regions = 0;
    FixedText<64> program;
};
static_assert(sizeof(ProcessRecord) == 120);

struct StatusPageReply {
    static constexpr auto kind = MessageKind::StatusPage;
    static constexpr std::uint32_t capacity = 24;
    std::uint64_t uptime_seconds = 0;
    std::uint64_t idle_seconds_limit = 0;
    std::int32_t pid = 0;
    std::uint32_t uid = 0;
    std::uint8_t on_demand = 0;
    std::uint8_t huge_pages = 0;
    std::uint8_t more = 0;  ///< 1: ask again, after the last process of this page
    std::uint8_t reserved = 0;
    std::uint32_t count = 0;
    FixedText<32> version;
    FixedText<112> socket;
    std::uint32_t net_port = 0;
    std::uint32_t net_key = 0;   ///< 1: the cluster has a key
    FixedText<200> net_problem;  ///< why other hosts can not be reached; empty: they can
    std::array<ProcessRecord, capacity> processes{};
};
static_assert(sizeof(StatusPageReply) == 3264);

/// With the counters' descriptor.
struct CountersGrantedReply {
    static constexpr auto kind = MessageKind::CountersGranted;
    std::uint64_t reserved = 0;
};

/// The other ends of these connections have left them.
struct ConnectionsGoneEvent {
    static constexpr auto kind = MessageKind::ConnectionsGone;
    static constexpr std::uint32_t capacity = 31;
    std::uint32_t count = 0;
    std::uint32_t reserved = 0;
    std::array<std::uint64_t, capacity> connections{};
};
static_assert(sizeof(ConnectionsGoneEvent) == 256);

struct LinkPolicyEvent {
    static constexpr auto kind = MessageKind::LinkPolicyWanted;
    std::uint32_t vi_slot = 0;  ///< 0: all connections
    std::uint32_t reserved = 0;
    FixedText<16> policy;
};
static_assert(sizeof(LinkPolicyEvent) == 24);

// ---- coding

using RequestBody = std::variant<
    AttachRequest, RegisterRequest, DeregisterRequest, ChangeMemoryRequest, AllocateKmemRequest,
    FreeKmemRequest, CreateViRequest, DestroyViNotice, DisconnectedNotice, ConnectWaitRequest,
    ConnectAcceptRequest, ConnectRejectRequest, ConnectRequestRequest, PeerRequestRequest,
    CancelNotice, PeerArenaRequest, PeerRmmtRequest, StatusRequest, CountersOfRequest, StopRequest,
    RestoreArenaRequest, RestoreBlocksRequest, RestoreRegionsRequest, RestoreVisRequest,
    RestoreConnectionsRequest, RestoreDoneRequest, SetLinkPolicyRequest, TranslateRequest>;

using ReplyBody =
    std::variant<FailedReply, DoneReply, AttachedReply, RegisteredReply, KmemAllocatedReply,
                 KmemFreedReply, ViCreatedReply, IncomingReply, EstablishedReply, ArenaGrantedReply,
                 RmmtGrantedReply, StatusPageReply, CountersGrantedReply, ConnectionsGoneEvent,
                 LinkPolicyEvent, TranslatedReply>;

struct Request {
    std::uint64_t id = 0;
    RequestBody body;
};

struct Reply {
    std::uint64_t id = 0;
    ReplyBody body;
};

/// ProtocolViolation with a sentence that says what is wrong. A message of another version is
/// NotSupported.
[[nodiscard]] base::Result<Request> decode_request(std::span<const std::byte> message);
[[nodiscard]] base::Result<Reply> decode_reply(std::span<const std::byte> message);

/// The header alone, if there is one (also of another version).
[[nodiscard]] base::Result<MessageHeader> decode_header(std::span<const std::byte> message);

/// Needs no memory but its own.
template <class Body>
[[nodiscard]] auto encode_in_place(std::uint64_t id, const Body& body) noexcept {
    static_assert(std::is_trivially_copyable_v<Body>);
    static_assert(sizeof(MessageHeader) + sizeof(Body) <= max_message_bytes);
    const MessageHeader header{protocol_magic, protocol_version,
                               static_cast<std::uint16_t>(Body::kind), id};
    std::array<std::byte, sizeof header + sizeof body> message;
    std::memcpy(message.data(), &header, sizeof header);
    std::memcpy(message.data() + sizeof header, &body, sizeof body);
    return message;
}

template <class Body>
[[nodiscard]] std::vector<std::byte> encode(std::uint64_t id, const Body& body) {
    const auto message = encode_in_place(id, body);
    return {message.begin(), message.end()};
}

[[nodiscard]] FailedReply failed(const base::Error& error);
[[nodiscard]] base::Error error_of(const FailedReply& reply);

[[nodiscard]] std::uint64_t timeout_of(base::Deadline deadline);
[[nodiscard]] base::Deadline deadline_of(std::uint64_t timeout_ns, base::Nanoseconds now);

/// The same address with the unused bytes zero, or InvalidArgument.
[[nodiscard]] base::Result<NetAddress> canonical(const NetAddress& address);

}  // namespace via::ka
