// SPDX-License-Identifier: BSD-3-Clause
#include "control_channel.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "control_message.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

// Slot 0 is for sending, the others hold posted receives.
constexpr std::size_t send_slot = 0;

base::Error channel_error(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor,
                          std::string_view what) {
    if (code == VIP_DESCRIPTOR_ERROR && descriptor != nullptr)
        return {base::Code::ConnectionLost,
                fmt::format("{}: {}", what, describe_status(descriptor->CS.Status))};
    return vipl_error(code, what);
}

}  // namespace

VIP_DESCRIPTOR* ControlChannel::descriptor(std::size_t slot) const {
    return reinterpret_cast<VIP_DESCRIPTOR*>(memory_.data() + slot * sizeof(VIP_DESCRIPTOR));
}

std::byte* ControlChannel::buffer(std::size_t slot) const {
    return memory_.data() + (receives + 1) * sizeof(VIP_DESCRIPTOR) + slot * slot_bytes;
}

base::Result<void> ControlChannel::post_receive(std::size_t slot) {
    VIP_DESCRIPTOR* one = descriptor(slot);
    *one = VIP_DESCRIPTOR{};
    one->CS.SegCount = 1;
    one->CS.Length = slot_bytes;
    one->DS[0].Local.Data.Address = buffer(slot);
    one->DS[0].Local.Handle = memory_.handle();
    one->DS[0].Local.Length = slot_bytes;
    if (const auto code = VipPostRecv(vi_.handle(), one, memory_.handle()); code != VIP_SUCCESS)
        return vipl_error(code, "posting a receive for the talk between the sides");
    return {};
}

base::Result<ControlChannel> ControlChannel::prepare(const Nic& nic) {
    ControlChannel channel;
    auto memory =
        Memory::allocate(nic, MemoryKind::Heap,
                         (receives + 1) * (sizeof(VIP_DESCRIPTOR) + slot_bytes), false, false);
    if (!memory) return std::move(memory).error();
    channel.memory_ = std::move(memory).value();
    VIP_VI_ATTRIBUTES attributes{};
    const bool reliable =
        (nic.attributes().ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY) != 0;
    attributes.ReliabilityLevel = static_cast<VIP_RELIABILITY_LEVEL>(
        reliable ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_UNRELIABLE);
    attributes.MaxTransferSize = slot_bytes;
    auto vi = Vi::create(nic, attributes, nullptr, nullptr);
    if (!vi) return std::move(vi).error();
    channel.vi_ = std::move(vi).value();
    for (std::size_t slot = 1; slot <= receives; ++slot)
        if (auto posted = channel.post_receive(slot); !posted) return std::move(posted).error();
    return channel;
}

base::Result<ControlChannel> ControlChannel::connect(const Nic& nic, Address& local,
                                                     Address& remote, base::Deadline deadline) {
    auto channel = prepare(nic);
    if (!channel) return channel;
    if (auto connected = channel.value().vi_.connect(local, remote, deadline); !connected)
        return std::move(connected).error();
    return channel;
}

base::Result<ControlChannel> ControlChannel::accept(const Nic& nic, Address& local,
                                                    base::Deadline deadline) {
    auto channel = prepare(nic);
    if (!channel) return channel;
    if (auto accepted = channel.value().vi_.accept(nic, local, deadline); !accepted)
        return std::move(accepted).error();
    return channel;
}

base::Result<void> ControlChannel::send(const nlohmann::json& message, base::Deadline deadline) {
    const std::string text = encode_message(message);
    if (text.size() > slot_bytes)
        return {base::Code::InvalidArgument, "a message between the sides is too long"};
    std::memcpy(buffer(send_slot), text.data(), text.size());
    VIP_DESCRIPTOR* one = descriptor(send_slot);
    *one = VIP_DESCRIPTOR{};
    one->CS.SegCount = 1;
    one->CS.Length = static_cast<VIP_UINT32>(text.size());
    one->DS[0].Local.Data.Address = buffer(send_slot);
    one->DS[0].Local.Handle = memory_.handle();
    one->DS[0].Local.Length = static_cast<VIP_UINT32>(text.size());
    if (const auto code = VipPostSend(vi_.handle(), one, memory_.handle()); code != VIP_SUCCESS)
        return vipl_error(code, "talking to the other side");
    VIP_DESCRIPTOR* done = nullptr;
    const auto code = VipSendWait(vi_.handle(), milliseconds_until(deadline), &done);
    if (code != VIP_SUCCESS) return channel_error(code, done, "talking to the other side");
    return {};
}

base::Result<nlohmann::json> ControlChannel::receive(base::Deadline deadline) {
    VIP_DESCRIPTOR* done = nullptr;
    const auto code = VipRecvWait(vi_.handle(), milliseconds_until(deadline), &done);
    if (code != VIP_SUCCESS)
        return channel_error(code, done, "waiting for word from the other side");
    const auto slot = static_cast<std::size_t>(done - descriptor(0));
    const std::size_t length = std::min<std::size_t>(done->CS.Length, slot_bytes);
    const std::string text(reinterpret_cast<const char*>(buffer(slot)), length);
    if (auto posted = post_receive(slot); !posted) return std::move(posted).error();
    return decode_message(text);
}

base::Result<nlohmann::json> ControlChannel::expect(std::string_view kind,
                                                    base::Deadline deadline) {
    auto message = receive(deadline);
    if (message && message.value()["kind"] != kind)
        return {base::Code::ProtocolViolation,
                fmt::format("the other side should have said \"{}\" but said \"{}\"", kind,
                            printable(message.value()["kind"].get<std::string>()))};
    return message;
}

}  // namespace via::tool
