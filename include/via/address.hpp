// SPDX-License-Identifier: BSD-3-Clause
// Where a VI can be reached: the NIC's address and a discriminator, which is like a port but may
// be any short string of bytes.
#pragma once

#include <vipl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace via {

class Address {
  public:
    Address(std::span<const std::uint8_t> host, std::string_view discriminator)
        : Address(host.size(), discriminator.size()) {
        std::copy_n(host.begin(), vip()->HostAddressLen, vip()->HostAddress);
        std::copy_n(discriminator.begin(), vip()->DiscriminatorLen,
                    vip()->HostAddress + vip()->HostAddressLen);
    }

    // Room for an address that VIPL writes.
    Address(std::size_t host_bytes, std::size_t discriminator_bytes) {
        // A length that does not fit is cut to one that no NIC takes.
        constexpr std::size_t most = std::numeric_limits<VIP_UINT16>::max();
        host_bytes = std::min(host_bytes, most);
        discriminator_bytes = std::min(discriminator_bytes, most);
        bytes_.resize(std::max(sizeof(VIP_NET_ADDRESS), offsetof(VIP_NET_ADDRESS, HostAddress) +
                                                            host_bytes + discriminator_bytes));
        vip()->HostAddressLen = static_cast<VIP_UINT16>(host_bytes);
        vip()->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator_bytes);
    }

    std::span<const std::uint8_t> host() const noexcept {
        return {vip()->HostAddress, vip()->HostAddressLen};
    }

    std::string_view discriminator() const noexcept {
        return {reinterpret_cast<const char*>(vip()->HostAddress + vip()->HostAddressLen),
                vip()->DiscriminatorLen};
    }

    // VIPL's functions take addresses without const, but write only to those they return.
    VIP_NET_ADDRESS* vip() const noexcept {
        return reinterpret_cast<VIP_NET_ADDRESS*>(const_cast<std::uint8_t*>(bytes_.data()));
    }

    friend bool operator==(const Address& left, const Address& right) noexcept {
        return std::ranges::equal(left.host(), right.host()) &&
               left.discriminator() == right.discriminator();
    }

  private:
    std::vector<std::uint8_t> bytes_;
};

}  // namespace via
