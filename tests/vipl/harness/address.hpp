// SPDX-License-Identifier: BSD-3-Clause
// Where a connection is asked for.
#pragma once

#include <vipl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "vipl/harness/nic.hpp"

namespace via::test {

/// A network address with room for the longest.
class Address {
  public:
    Address() = default;
    Address(std::string_view host, std::string_view discriminator);
    Address(const Nic& nic, std::string_view discriminator);

    [[nodiscard]] VIP_NET_ADDRESS* get() {
        return reinterpret_cast<VIP_NET_ADDRESS*>(bytes_.data());
    }
    [[nodiscard]] std::string host() const;
    [[nodiscard]] std::string discriminator() const;
    friend bool operator==(const Address& left, const Address& right) {
        return left.host() == right.host() && left.discriminator() == right.discriminator();
    }

  private:
    [[nodiscard]] std::uint16_t field(std::size_t offset) const;
    alignas(8) std::array<std::uint8_t, 1024> bytes_{};
};

/// The address of a NIC as VipQueryNic gives it.
[[nodiscard]] std::string host_of(const Nic& nic);
/// Eight bytes that no other call in any test process has returned.
[[nodiscard]] std::string unique_discriminator();

}  // namespace via::test
