// SPDX-License-Identifier: BSD-3-Clause
// Endpoint names as libfabric's programs see them: a sockaddr_in, or "fi_sockaddr_in://ip:port".
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <rdma/fabric.h>

#include "mvich/address_book.hpp"

namespace via::ofi {

[[nodiscard]] bool is_known_format(std::uint32_t format) noexcept;
/// Of a name in this format, as in an info or a call. For text the given string is measured.
[[nodiscard]] std::optional<mvich::HostPort> read_address(std::uint32_t format, const void* address,
                                                          std::size_t bytes);
[[nodiscard]] std::string text_of(const mvich::HostPort& name);
[[nodiscard]] sockaddr_in socket_address(const mvich::HostPort& name) noexcept;
/// As fi_getname: writes what there is room for and tells the length. -FI_ETOOSMALL: there was
/// less.
[[nodiscard]] int write_address(std::uint32_t format, const mvich::HostPort& name, void* to,
                                std::size_t* bytes);
/// In memory of malloc(), for an info.
[[nodiscard]] bool copy_address(std::uint32_t format, const mvich::HostPort& name, void*& to,
                                std::size_t& bytes);

/// Nothing: there is no such host or service. A null node is this host, a null service port 0.
[[nodiscard]] std::optional<mvich::HostPort> resolve(const char* node, const char* service,
                                                     bool numeric);
/// The address by which this host would reach another; without one, by which it is known.
[[nodiscard]] mvich::HostPort local_address(const std::optional<mvich::HostPort>& towards);

}  // namespace via::ofi
