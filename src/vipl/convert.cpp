// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/convert.hpp"

#include <cstring>
#include <string>

namespace via::vipl {

base::Deadline to_deadline(VIP_ULONG milliseconds) noexcept {
    if (milliseconds == VIP_INFINITE || milliseconds == 0xFFFFFFFFUL)
        return base::Deadline::never();
    return base::Deadline::after_milliseconds(milliseconds);
}

base::Result<ka::NetAddress> to_address(const VIP_NET_ADDRESS* address) {
    using Outcome = base::Result<ka::NetAddress>;
    if (address == nullptr) return Outcome(base::Code::InvalidArgument, "an address is NULL");
    if (address->HostAddressLen > ka::max_host_address_bytes)
        return Outcome(base::Code::InvalidArgument,
                       "a host address has " + std::to_string(address->HostAddressLen) +
                           " bytes; the most is " + std::to_string(ka::max_host_address_bytes));
    if (address->DiscriminatorLen > ka::max_discriminator_bytes)
        return Outcome(base::Code::InvalidArgument,
                       "a discriminator has " + std::to_string(address->DiscriminatorLen) +
                           " bytes; the most is " + std::to_string(ka::max_discriminator_bytes));
    ka::NetAddress result;
    result.host_bytes = static_cast<std::uint8_t>(address->HostAddressLen);
    result.discriminator_bytes = static_cast<std::uint8_t>(address->DiscriminatorLen);
    const VIP_UINT8* bytes = address->HostAddress;
    std::memcpy(result.host.data(), bytes, result.host_bytes);
    std::memcpy(result.discriminator.data(), bytes + result.host_bytes, result.discriminator_bytes);
    return result;
}

void from_address(const ka::NetAddress& from, VIP_NET_ADDRESS* to) noexcept {
    to->HostAddressLen = from.host_bytes;
    to->DiscriminatorLen = from.discriminator_bytes;
    VIP_UINT8* bytes = to->HostAddress;
    std::memcpy(bytes, from.host.data(), from.host_bytes);
    std::memcpy(bytes + from.host_bytes, from.discriminator.data(), from.discriminator_bytes);
}

base::Result<ka::EndpointAttributes> to_endpoint_attributes(ua::Nic& nic,
                                                            const VIP_VI_ATTRIBUTES& attributes) {
    using Outcome = base::Result<ka::EndpointAttributes>;
    const na::NicAttributes& device = nic.device().attributes();
    const std::uint32_t level = attributes.ReliabilityLevel;
    if ((level & (level - 1)) != 0 || (level & device.reliability_levels) == 0)
        return Outcome(base::Code::ReliabilityMismatch,
                       "the reliability level must be exactly one that the NIC supports");
    if (attributes.MaxTransferSize > device.max_transfer_bytes)
        return Outcome(base::Code::TransferSizeMismatch,
                       "MaxTransferSize " + std::to_string(attributes.MaxTransferSize) +
                           " is more than the NIC's " + std::to_string(device.max_transfer_bytes));
    if (attributes.QoS != nullptr)
        return Outcome(base::Code::QosMismatch, "no quality of service but 0 is defined");
    if (attributes.EnableRdmaRead && (device.rdma_read_levels & level) == 0)
        return Outcome(base::Code::RdmaReadRefused,
                       "RDMA read does not exist at this reliability level");
    const ka::ProtectionTag tag = to_tag(attributes.Ptag);
    if (!nic.tag_exists(tag))
        return Outcome(base::Code::ProtectionTag, "there is no such protection tag on this NIC");
    ka::EndpointAttributes result;
    result.max_transfer_bytes = attributes.MaxTransferSize;
    result.quality_of_service = 0;
    result.reliability = level;
    result.rights = (attributes.EnableRdmaWrite ? ka::right_rdma_write : 0) |
                    (attributes.EnableRdmaRead ? ka::right_rdma_read : 0);
    result.tag = tag;
    result.flags = tag == ka::null_tag && !nic.strict_tags() ? ka::endpoint_any_tag : 0;
    return result;
}

void from_endpoint_attributes(const ka::EndpointAttributes& from, bool with_tag,
                              VIP_VI_ATTRIBUTES* to) noexcept {
    to->ReliabilityLevel = static_cast<VIP_RELIABILITY_LEVEL>(from.reliability);
    to->MaxTransferSize = from.max_transfer_bytes;
    to->QoS = nullptr;
    to->Ptag = with_tag ? from_tag(from.tag) : nullptr;
    to->EnableRdmaWrite = (from.rights & ka::right_rdma_write) != 0 ? VIP_TRUE : VIP_FALSE;
    to->EnableRdmaRead = (from.rights & ka::right_rdma_read) != 0 ? VIP_TRUE : VIP_FALSE;
}

base::Result<ua::MemoryAttributes> to_memory_attributes(ua::Nic& nic,
                                                        const VIP_MEM_ATTRIBUTES* attributes) {
    using Outcome = base::Result<ua::MemoryAttributes>;
    ua::MemoryAttributes result;
    if (attributes == nullptr) return result;  // as cLAN: default tag, no RDMA
    result.tag = to_tag(attributes->Ptag);
    if (!nic.tag_exists(result.tag))
        return Outcome(base::Code::ProtectionTag, "there is no such protection tag on this NIC");
    if (attributes->EnableRdmaRead && nic.device().attributes().rdma_read_levels == 0)
        return Outcome(base::Code::RdmaReadRefused, "this NIC has no RDMA read");
    result.rights = (attributes->EnableRdmaWrite ? ka::right_rdma_write : 0) |
                    (attributes->EnableRdmaRead ? ka::right_rdma_read : 0);
    return result;
}

ka::ProtectionTag to_tag(VIP_PROTECTION_HANDLE tag) noexcept {
    const auto value = reinterpret_cast<std::uint64_t>(tag);
    // A value no tag can have, so that a wild pointer does not hit one by its low bits.
    return value > 0xFFFFFFFEU ? 0xFFFFFFFFU : static_cast<ka::ProtectionTag>(value);
}

VIP_PROTECTION_HANDLE from_tag(ka::ProtectionTag tag) noexcept {
    return reinterpret_cast<VIP_PROTECTION_HANDLE>(static_cast<std::uint64_t>(tag));
}

}  // namespace via::vipl
