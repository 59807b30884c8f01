// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/address.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace via::test {

Address::Address(std::string_view host, std::string_view discriminator) {
    const auto host_bytes = static_cast<std::uint16_t>(host.size());
    const auto discriminator_bytes = static_cast<std::uint16_t>(discriminator.size());
    std::memcpy(bytes_.data(), &host_bytes, sizeof host_bytes);
    std::memcpy(bytes_.data() + 2, &discriminator_bytes, sizeof discriminator_bytes);
    std::copy(host.begin(), host.end(), bytes_.begin() + 4);
    std::copy(discriminator.begin(), discriminator.end(), bytes_.begin() + 4 + host_bytes);
}

Address::Address(const Nic& nic, std::string_view discriminator)
    : Address(host_of(nic), discriminator) {}

std::uint16_t Address::field(std::size_t offset) const {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
}

std::string Address::host() const {
    return {reinterpret_cast<const char*>(bytes_.data()) + 4, field(0)};
}

std::string Address::discriminator() const {
    return {reinterpret_cast<const char*>(bytes_.data()) + 4 + field(0), field(2)};
}

std::string host_of(const Nic& nic) {
    return {reinterpret_cast<const char*>(nic.attributes().LocalNicAddress),
            nic.attributes().NicAddressLen};
}

std::string unique_discriminator() {
    static std::atomic<std::uint32_t> counter{0};
    const std::array<std::uint32_t, 2> words{static_cast<std::uint32_t>(getpid()),
                                             counter.fetch_add(1)};
    return {reinterpret_cast<const char*>(words.data()), sizeof words};
}

}  // namespace via::test
