// SPDX-License-Identifier: BSD-3-Clause
// Endpoint names as VIA's network addresses: the host, and as discriminator the layer's own word
// with the port. A requester says its whole name, so that it is known who asks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "ka/client.hpp"
#include "mvich/address_book.hpp"

namespace via::mvich {

class DeviceParts;

[[nodiscard]] ka::NetAddress listener_address(DeviceParts& device, const HostPort& name);
[[nodiscard]] ka::NetAddress requester_address(DeviceParts& device, const HostPort& name);
/// Nothing: no endpoint of this layer asks so.
[[nodiscard]] std::optional<HostPort> requester_name(const ka::NetAddress& address);
/// Would a requester that has a name have come inside the host, if it could?
[[nodiscard]] bool requester_chooses(const ka::NetAddress& address);
/// "10.0.0.2:4711"
[[nodiscard]] std::string readable(const HostPort& name);

/// Has any endpoint (or other program) of this host the port? True if that can not be said.
[[nodiscard]] bool port_is_reserved(std::uint16_t port);

/// A thread that takes none of the program's signals.
[[nodiscard]] base::Result<std::thread> quiet_thread(std::function<void()> run);

}  // namespace via::mvich
