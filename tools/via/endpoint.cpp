// SPDX-License-Identifier: BSD-3-Clause
#include "endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace via::tool {
namespace {

constexpr std::uint32_t few_slots = 8;  // for turns and for credits, where few are under way

/// What the rings of one side hold.
struct Rings {
    std::uint32_t sends = few_slots;
    std::uint32_t receives = few_slots;
    std::uint64_t send_bytes = 0;     ///< of each send
    std::uint64_t receive_bytes = 0;  ///< that each receive can take
};

/// The window's small messages (credits, the end of a stream of writes) have no data at all.
Rings rings_for(Role role, Operation operation, const TestTerms& test) {
    Rings rings;
    if (test.program == Program::Pingpong) {
        rings.send_bytes = test.bytes;
        rings.receive_bytes = operation == Operation::Send ? test.bytes : 0;
        return rings;
    }
    if (role == Role::Client) {
        rings.sends = test.window;
        rings.send_bytes = test.bytes;
    } else if (operation == Operation::Send) {
        rings.receives = test.window;
        rings.receive_bytes = test.bytes;
    }
    return rings;
}

VIP_RELIABILITY_LEVEL level_of(Reliability reliability) {
    switch (reliability) {
        case Reliability::Unreliable:
            return VIP_SERVICE_UNRELIABLE;
        case Reliability::Delivery:
            return VIP_SERVICE_RELIABLE_DELIVERY;
        case Reliability::Reception:
            return VIP_SERVICE_RELIABLE_RECEPTION;
    }
    return VIP_SERVICE_UNRELIABLE;
}

base::Result<void> check_limits(const Nic& nic, const SessionTerms& session, const TestTerms& test,
                                const Rings& rings) {
    const VIP_NIC_ATTRIBUTES& limits = nic.attributes();
    if (test.bytes == 0 && session.operation != Operation::Send)
        return {base::Code::InvalidArgument, "an RDMA operation needs at least one byte"};
    if (test.bytes > limits.MaxTransferSize)
        return {base::Code::InvalidArgument,
                fmt::format("{} bytes are more than one transfer of this device can be ({})",
                            test.bytes, limits.MaxTransferSize)};
    if (std::max(rings.sends, rings.receives) > limits.MaxDescriptorsPerQueue)
        return {base::Code::InvalidArgument,
                fmt::format("a window of {} is more than a work queue of this device holds ({})",
                            test.window, limits.MaxDescriptorsPerQueue)};
    const VIP_RELIABILITY_LEVEL level = level_of(session.reliability);
    if ((limits.ReliabilityLevelSupport & level) == 0)
        return {base::Code::NotSupported,
                fmt::format("this device does not offer the reliability '{}'",
                            to_text(session.reliability))};
    if (session.operation == Operation::RdmaRead && (limits.RDMAReadSupport & level) == 0)
        return {base::Code::NotSupported,
                fmt::format("this device has no RDMA read at the reliability '{}'",
                            to_text(session.reliability))};
    return {};
}

}  // namespace

bool polls_memory(const SessionTerms& session) {
    return session.operation == Operation::RdmaWrite && session.wait == WaitKind::Poll &&
           !session.completion_queue;
}

WaitMode wait_mode(const SessionTerms& terms) {
    if (terms.wait == WaitKind::Poll)
        return terms.completion_queue ? WaitMode::PollQueue : WaitMode::PollDirect;
    return terms.completion_queue ? WaitMode::BlockQueue : WaitMode::BlockDirect;
}

VIP_VI_ATTRIBUTES vi_attributes(const SessionTerms& session, std::uint64_t bytes) {
    VIP_VI_ATTRIBUTES attributes{};
    attributes.ReliabilityLevel = level_of(session.reliability);
    attributes.MaxTransferSize = std::max<std::uint64_t>(bytes, 64);
    attributes.EnableRdmaWrite = session.operation == Operation::RdmaWrite ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead = session.operation == Operation::RdmaRead ? VIP_TRUE : VIP_FALSE;
    return attributes;
}

base::Error link_error(const Link& link, const Nic& nic) {
    if (link.wrong_byte)
        return {base::Code::ProtocolViolation,
                fmt::format("message {} arrived with a wrong byte at offset {}", link.wrong_message,
                            *link.wrong_byte)};
    const char* what = link.failed_at != nullptr ? link.failed_at : "measuring";
    if (link.failure == VIP_SUCCESS)
        return {base::Code::ConnectionLost,
                fmt::format("{}: a VI that should be idle completed something", what)};
    base::Error error = vipl_error(link.failure, what);
    if (link.failure_status != 0)
        error = {base::Code::ConnectionLost,
                 fmt::format("{}: {}", what, describe_status(link.failure_status))};
    const std::string further = nic.asynchronous_error();
    if (!further.empty()) error.sentence += "; " + further;
    return error;
}

base::Result<Endpoint> Endpoint::prepare(const Nic& nic, Role role, const SessionTerms& session,
                                         const TestTerms& test, VIP_CQ_HANDLE queue,
                                         base::Nanoseconds patience) {
    Endpoint endpoint;
    endpoint.test_ = test;
    endpoint.operation_ = session.operation;
    endpoint.role_ = role;
    endpoint.stride_ = buffer_stride(test.bytes);
    endpoint.announce_ = test.program == Program::Pingpong && !polls_memory(session);
    const Rings rings = rings_for(role, session.operation, test);
    if (auto allowed = check_limits(nic, session, test, rings); !allowed)
        return std::move(allowed).error();

    auto descriptors =
        Memory::allocate(nic, MemoryKind::Heap,
                         (rings.sends + rings.receives + 1) * sizeof(VIP_DESCRIPTOR), false, false);
    if (!descriptors) return std::move(descriptors).error();
    endpoint.descriptors_ = std::move(descriptors).value();
    auto data = Memory::allocate(nic, test.memory, 2 * test.buffers * endpoint.stride_,
                                 session.operation == Operation::RdmaWrite,
                                 session.operation == Operation::RdmaRead);
    if (!data) return std::move(data).error();
    endpoint.data_ = std::move(data).value();

    // Reads have nothing to receive; what completes there are sends.
    const bool reads = session.operation == Operation::RdmaRead;
    auto vi = Vi::create(nic, vi_attributes(session, test.bytes), reads ? queue : nullptr,
                         reads ? nullptr : queue);
    if (!vi) return std::move(vi).error();
    endpoint.vi_ = std::move(vi).value();

    Link& link = endpoint.link_;
    link.vi = endpoint.vi_.handle();
    link.queue = queue;
    link.descriptors = endpoint.descriptors_.handle();
    link.sends = reinterpret_cast<VIP_DESCRIPTOR*>(endpoint.descriptors_.data());
    link.send_slots = rings.sends;
    link.receives = link.sends + rings.sends;
    link.receive_slots = rings.receives;
    link.receive_bytes = static_cast<std::uint32_t>(rings.receive_bytes);
    link.last_word = link.receives + rings.receives;
    *link.last_word = VIP_DESCRIPTOR{};
    link.last_word->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    link.patience = static_cast<VIP_ULONG>(std::max<base::Nanoseconds>(1, patience / 1'000'000));

    for (std::uint32_t slot = 0; slot < rings.sends; ++slot) {
        VIP_DESCRIPTOR& one = link.sends[slot];
        one = VIP_DESCRIPTOR{};
        one.CS.Length = static_cast<VIP_UINT32>(rings.send_bytes);
        if (rings.send_bytes == 0) {
            one.CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
            continue;
        }
        one.CS.SegCount = 1;
        VIP_DATA_SEGMENT& data_segment = one.DS[0].Local;
        data_segment.Data.Address = endpoint.send_buffer(endpoint.buffer_of_slot(slot));
        data_segment.Handle = endpoint.data_.handle();
        data_segment.Length = static_cast<VIP_UINT32>(rings.send_bytes);
    }
    for (std::uint32_t slot = 0; slot < rings.receives; ++slot) {
        VIP_DESCRIPTOR& one = link.receives[slot];
        one = VIP_DESCRIPTOR{};
        if (rings.receive_bytes > 0) {
            one.CS.SegCount = 1;
            one.DS[0].Local.Data.Address = endpoint.receive_buffer(endpoint.buffer_of_slot(slot));
            one.DS[0].Local.Handle = endpoint.data_.handle();
            one.DS[0].Local.Length = link.receive_bytes;
        }
        if (reads) continue;
        if (!post_receive(link, &one)) return link_error(link, nic);
    }
    return endpoint;
}

nlohmann::json Endpoint::describe_memory() const {
    return {{"address", reinterpret_cast<std::uintptr_t>(data_.data())},
            {"handle", data_.handle()}};
}

base::Result<void> Endpoint::aim_at(const nlohmann::json& remote) {
    if (operation_ == Operation::Send) return {};
    if (!remote.is_object() || !remote.contains("address") || !remote.contains("handle") ||
        !remote["address"].is_number_unsigned() || !remote["handle"].is_number_unsigned())
        return {base::Code::ProtocolViolation,
                "the other side did not say where its memory for RDMA is"};
    const auto address = remote["address"].get<std::uint64_t>();
    const auto handle = remote["handle"].get<VIP_MEM_HANDLE>();
    // The server of a window only sends credits.
    if (test_.program == Program::Window && role_ == Role::Server) return {};
    const bool writes = operation_ == Operation::RdmaWrite;
    for (std::uint32_t slot = 0; slot < link_.send_slots; ++slot) {
        const std::uint32_t buffer = buffer_of_slot(slot);
        VIP_DESCRIPTOR& one = link_.sends[slot];
        one.CS.SegCount = test_.bytes > 0 ? 2 : 1;
        one.CS.Control = writes ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD;
        if (writes && announce_) one.CS.Control |= VIP_CONTROL_IMMEDIATE;
        one.DS[0].Remote = VIP_ADDRESS_SEGMENT{};
        // Writes go to the other side's receive buffers, reads come from its send buffers.
        one.DS[0].Remote.Data.AddressBits =
            address + (writes ? test_.buffers + buffer : buffer) * stride_;
        one.DS[0].Remote.Handle = handle;
        one.DS[1].Local.Data.Address = writes ? send_buffer(buffer) : receive_buffer(buffer);
        one.DS[1].Local.Handle = data_.handle();
        one.DS[1].Local.Length = static_cast<VIP_UINT32>(test_.bytes);
    }
    return {};
}

}  // namespace via::tool
