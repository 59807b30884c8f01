// SPDX-License-Identifier: BSD-3-Clause
#include "ka/protocol.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

namespace via::ka {
namespace {

using base::Code;
using base::Error;
using base::Result;

/// What is wrong with a message; empty: nothing.
using Complaint = std::optional<std::string>;

template <std::size_t n>
bool all_zero(const std::array<std::uint8_t, n>& bytes, std::size_t from = 0) {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(),
                       [](std::uint8_t byte) { return byte == 0; });
}

template <std::size_t n>
Complaint check(const FixedText<n>& text, const char* name) {
    if (!text.terminated()) return std::string(name) + " does not end";
    const std::size_t length = std::strlen(text.bytes.data());
    for (std::size_t i = length; i < n; ++i)
        if (text.bytes[i] != '\0') return std::string(name) + " has bytes after its end";
    return {};
}

Complaint check_reserved(std::uint64_t reserved) {
    if (reserved != 0) return "a reserved field is not zero";
    return {};
}

Complaint check(const NetAddress& address) {
    if (address.host_bytes > max_host_address_bytes)
        return "a host address of " + std::to_string(address.host_bytes) + " bytes";
    if (address.discriminator_bytes > max_discriminator_bytes)
        return "a discriminator of " + std::to_string(address.discriminator_bytes) + " bytes";
    if (!all_zero(address.host, address.host_bytes) ||
        !all_zero(address.discriminator, address.discriminator_bytes))
        return "an address has bytes after its end";
    return {};
}

Complaint check_rights(std::uint32_t rights) {
    if ((rights & ~(right_rdma_write | right_rdma_read)) != 0) return "unknown rights";
    return {};
}

Complaint check(const EndpointAttributes& attributes) {
    if ((attributes.flags & ~endpoint_any_tag) != 0) return "unknown endpoint flags";
    return check_rights(attributes.rights);
}

Complaint check_fabric(std::uint32_t fabric) {
    if (fabric != fabric_shm && fabric != fabric_net) return "an unknown fabric";
    return {};
}

Complaint check(const ConnectOffer& offer) {
    if (auto bad = check(offer.local)) return bad;
    if (auto bad = check(offer.remote)) return bad;
    if (auto bad = check_fabric(offer.fabric)) return bad;
    if (auto bad = check_reserved(offer.reserved)) return bad;
    return check(offer.attributes);
}

Complaint check_flag(std::uint32_t flag) {
    if (flag > 1) return "a flag is neither 0 nor 1";
    return {};
}

Complaint check_handle(MemoryHandle handle) {
    const std::uint32_t index = handle_index(handle);
    if (index == 0 || index >= rmmt_entries - 1) return "an impossible memory handle";
    return {};
}

Complaint check_range(std::uint64_t first, std::uint64_t bytes) {
    if (bytes == 0) return "an empty range";
    if (first > std::numeric_limits<std::uint64_t>::max() - bytes)
        return "a range beyond the end of the address space";
    return {};
}

Complaint check_count(std::uint32_t count, std::uint32_t capacity) {
    if (count > capacity)
        return std::to_string(count) + " records where " + std::to_string(capacity) + " fit";
    return {};
}

// One per message; whatever passes is in range, so that nobody behind has to look again.

Complaint check(const AttachRequest& m) {
    if (m.descriptors > 7) return "unknown descriptors";
    if (auto bad = check_flag(m.restoring)) return bad;
    if (m.rmmt_epoch == 0) return "a table without a number";
    return check(m.program, "the program's name");
}
Complaint check(const RegisterRequest& m) {
    if (auto bad = check_range(m.address, m.bytes)) return bad;
    if (m.arena == no_arena && m.arena_offset != 0) return "an offset without an arena";
    if (auto bad = check_range(m.arena_offset, m.bytes)) return bad;
    if (auto bad = check_rights(m.rights)) return bad;
    return check_reserved(m.reserved);
}
Complaint check(const DeregisterRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const ChangeMemoryRequest& m) {
    if (auto bad = check_rights(m.rights)) return bad;
    return check_reserved(m.reserved);
}
Complaint check(const AllocateKmemRequest& m) {
    return check_flag(m.ordinary_pages);
}
Complaint check(const FreeKmemRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const CreateViRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const DestroyViNotice& m) {
    return check_reserved(m.reserved);
}
Complaint check(const DisconnectedNotice&) {
    return {};
}
Complaint check(const ConnectWaitRequest& m) {
    if (!all_zero(m.reserved)) return "a reserved field is not zero";
    if (m.fabrics == 0 || (m.fabrics & ~all_fabrics) != 0) return "unknown fabrics";
    return check(m.local);
}
Complaint check(const ConnectAcceptRequest& m) {
    return check(m.offer);
}
Complaint check(const ConnectRejectRequest&) {
    return {};
}
Complaint check(const ConnectRequestRequest& m) {
    return check(m.offer);
}
Complaint check(const PeerRequestRequest& m) {
    return check(m.offer);
}
Complaint check(const CancelNotice&) {
    return {};
}
Complaint check(const PeerArenaRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const TranslateRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const PeerRmmtRequest&) {
    return {};
}
Complaint check(const StatusRequest&) {
    return {};
}
Complaint check(const CountersOfRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const StopRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const RestoreArenaRequest& m) {
    if (m.arena == no_arena || m.bytes == 0) return "an arena without number or size";
    if (auto bad = check_flag(m.dedicated)) return bad;
    return check_reserved(m.reserved);
}
Complaint check(const RestoreBlocksRequest& m) {
    if (auto bad = check_count(m.count, m.capacity)) return bad;
    for (std::uint32_t i = 0; i < m.count; ++i)
        if (auto bad = check_range(m.blocks[i].offset, m.blocks[i].bytes)) return bad;
    return {};
}
Complaint check(const RestoreRegionsRequest& m) {
    if (auto bad = check_count(m.count, m.capacity)) return bad;
    for (std::uint32_t i = 0; i < m.count; ++i) {
        if (auto bad = check_handle(m.regions[i].handle)) return bad;
        if (auto bad = check_reserved(m.regions[i].reserved)) return bad;
        if (auto bad = check(m.regions[i].region)) return bad;
    }
    return check_reserved(m.reserved);
}
Complaint check(const RestoreVisRequest& m) {
    if (auto bad = check_count(m.count, m.capacity)) return bad;
    for (std::uint32_t i = 0; i < m.count; ++i)
        if (m.vis[i] == 0) return "a VI without a number";
    return check_reserved(m.reserved);
}
Complaint check(const RestoreConnectionsRequest& m) {
    if (auto bad = check_count(m.count, m.capacity)) return bad;
    for (std::uint32_t i = 0; i < m.count; ++i) {
        const ConnectionRecord& record = m.connections[i];
        if (record.connection == 0) return "a connection without a number";
        if ((record.flags & ~(endpoint_any_tag | connection_remote)) != 0)
            return "unknown endpoint flags";
    }
    return check_reserved(m.reserved);
}
Complaint check(const RestoreDoneRequest& m) {
    return check_reserved(m.reserved);
}
Complaint check(const SetLinkPolicyRequest& m) {
    return check(m.policy, "the policy");
}

Complaint check(const FailedReply& m) {
    if (m.code > static_cast<std::uint32_t>(Code::System)) return "an unknown error code";
    if (auto bad = check_reserved(m.reserved)) return bad;
    return check(m.sentence, "the sentence");
}
Complaint check(const DoneReply& m) {
    return check_reserved(m.reserved);
}
Complaint check(const AttachedReply& m) {
    if (m.net_port > 65535) return "an impossible port";
    return check_reserved(m.reserved);
}
Complaint check(const RegisteredReply& m) {
    if (auto bad = check_handle(m.handle)) return bad;
    return check_reserved(m.reserved);
}
Complaint check(const KmemAllocatedReply& m) {
    if (m.arena == no_arena) return "kmem without an arena";
    if (auto bad = check_range(m.offset, m.bytes)) return bad;
    if (m.offset + m.bytes > m.arena_bytes) return "kmem beyond the end of its arena";
    if (auto bad = check_flag(m.new_arena)) return bad;
    if (auto bad = check_flag(m.huge_pages)) return bad;
    if (auto bad = check_flag(m.dedicated)) return bad;
    if (!all_zero(m.reserved)) return "a reserved field is not zero";
    return {};
}
Complaint check(const KmemFreedReply& m) {
    if (m.arena == no_arena) return "kmem without an arena";
    return check_flag(m.arena_released);
}
Complaint check(const ViCreatedReply& m) {
    if (m.vi == 0) return "a VI without a number";
    return check_reserved(m.reserved);
}
Complaint check(const IncomingReply& m) {
    if (!all_zero(m.reserved)) return "a reserved field is not zero";
    if (auto bad = check_fabric(m.fabric)) return bad;
    if (auto bad = check(m.remote)) return bad;
    return check(m.remote_attributes);
}
Complaint check(const EstablishedReply& m) {
    if (m.descriptors > 15) return "unknown descriptors";
    if ((m.descriptors & established_process) == 0 && (m.descriptors & ~established_channel) != 0)
        return "doorbells of no process";
    if (((m.descriptors & established_channel) != 0) != (m.channel_bytes != 0))
        return "a channel without size or descriptor";
    if (auto bad = check_flag(m.requester)) return bad;
    if (auto bad = check_reserved(m.reserved)) return bad;
    if (auto bad = check(m.remote_address)) return bad;
    return check(m.remote_attributes);
}
Complaint check(const ArenaGrantedReply&) {
    return {};
}
Complaint check(const TranslatedReply& m) {
    return check_reserved(m.reserved);
}
Complaint check(const RmmtGrantedReply& m) {
    return check_reserved(m.reserved);
}
Complaint check(const StatusPageReply& m) {
    if (auto bad = check_count(m.count, m.capacity)) return bad;
    if (auto bad = check_flag(m.on_demand)) return bad;
    if (auto bad = check_flag(m.huge_pages)) return bad;
    if (auto bad = check_flag(m.more)) return bad;
    if (m.more == 1 && m.count == 0) return "a page that leads nowhere";
    if (auto bad = check_reserved(m.reserved)) return bad;
    if (auto bad = check(m.version, "the version")) return bad;
    if (auto bad = check(m.socket, "the socket's name")) return bad;
    if (m.net_port > 65535) return "an impossible port";
    if (auto bad = check_flag(m.net_key)) return bad;
    if (auto bad = check(m.net_problem, "the network's problem")) return bad;
    for (std::uint32_t i = 0; i < m.count; ++i)
        if (auto bad = check(m.processes[i].program, "a program's name")) return bad;
    return {};
}
Complaint check(const CountersGrantedReply& m) {
    return check_reserved(m.reserved);
}
Complaint check(const ConnectionsGoneEvent& m) {
    if (auto bad = check_count(m.count, m.capacity)) return bad;
    return check_reserved(m.reserved);
}
Complaint check(const LinkPolicyEvent& m) {
    if (auto bad = check_reserved(m.reserved)) return bad;
    return check(m.policy, "the policy");
}

template <class Message, class Variant, std::size_t index = 0>
Result<Message> decode_as(const MessageHeader& header, std::span<const std::byte> payload) {
    if constexpr (index == std::variant_size_v<Variant>) {
        return Result<Message>(Code::ProtocolViolation,
                               "a message of unknown kind " + std::to_string(header.kind));
    } else {
        using Body = std::variant_alternative_t<index, Variant>;
        if (header.kind != static_cast<std::uint16_t>(Body::kind))
            return decode_as<Message, Variant, index + 1>(header, payload);
        if (payload.size() != sizeof(Body))
            return Result<Message>(Code::ProtocolViolation,
                                   "a message of kind " + std::to_string(header.kind) + " with " +
                                       std::to_string(payload.size()) + " bytes instead of " +
                                       std::to_string(sizeof(Body)));
        Body body;
        std::memcpy(static_cast<void*>(&body), payload.data(), sizeof body);
        if (auto bad = check(body))
            return Result<Message>(
                Code::ProtocolViolation,
                "a message of kind " + std::to_string(header.kind) + " is malformed: " + *bad);
        return Message{header.id, Variant(std::in_place_index<index>, body)};
    }
}

template <class Message, class Variant>
Result<Message> decode(std::span<const std::byte> message) {
    auto header = decode_header(message);
    if (!header) return std::move(header).error();
    if (header.value().version != protocol_version)
        return Result<Message>(Code::NotSupported,
                               "the other side speaks version " +
                                   std::to_string(header.value().version) +
                                   " of the agent's protocol and this side version " +
                                   std::to_string(protocol_version));
    return decode_as<Message, Variant>(header.value(), message.subspan(sizeof(MessageHeader)));
}

}  // namespace

Result<MessageHeader> decode_header(std::span<const std::byte> message) {
    MessageHeader header;
    if (message.size() < sizeof header)
        return Result<MessageHeader>(
            Code::ProtocolViolation,
            "a message of " + std::to_string(message.size()) + " bytes is too short");
    std::memcpy(&header, message.data(), sizeof header);
    if (header.magic != protocol_magic)
        return Result<MessageHeader>(Code::ProtocolViolation,
                                     "a message that is not of the agent's protocol");
    return header;
}

Result<Request> decode_request(std::span<const std::byte> message) {
    return decode<Request, RequestBody>(message);
}

Result<Reply> decode_reply(std::span<const std::byte> message) {
    return decode<Reply, ReplyBody>(message);
}

FailedReply failed(const Error& error) {
    FailedReply reply;
    reply.code = static_cast<std::uint32_t>(error.code);
    reply.sentence = FixedText<400>(error.sentence);
    return reply;
}

Error error_of(const FailedReply& reply) {
    return Error{static_cast<Code>(reply.code), reply.sentence.text()};
}

std::uint64_t timeout_of(base::Deadline deadline) {
    if (deadline.is_never()) return timeout_never;
    return static_cast<std::uint64_t>(deadline.remaining());
}

base::Deadline deadline_of(std::uint64_t timeout_ns, base::Nanoseconds now) {
    constexpr auto last = std::numeric_limits<base::Nanoseconds>::max();
    if (timeout_ns > static_cast<std::uint64_t>(last - now)) return base::Deadline::never();
    return base::Deadline::at(now + static_cast<base::Nanoseconds>(timeout_ns));
}

Result<NetAddress> canonical(const NetAddress& address) {
    if (address.host_bytes > max_host_address_bytes ||
        address.discriminator_bytes > max_discriminator_bytes)
        return Result<NetAddress>(Code::InvalidArgument,
                                  "a network address has at most " +
                                      std::to_string(max_host_address_bytes) + " host bytes and " +
                                      std::to_string(max_discriminator_bytes) +
                                      " discriminator bytes");
    NetAddress result;
    result.host_bytes = address.host_bytes;
    result.discriminator_bytes = address.discriminator_bytes;
    std::copy_n(address.host.begin(), address.host_bytes, result.host.begin());
    std::copy_n(address.discriminator.begin(), address.discriminator_bytes,
                result.discriminator.begin());
    return result;
}

}  // namespace via::ka
