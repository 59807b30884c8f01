// SPDX-License-Identifier: BSD-3-Clause
// The UDP socket between the kernel agents of different hosts: IPv4 and IPv6 by one descriptor
// where the system has both. Answers leave from the address that was asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "ka/host_address.hpp"
#include "ka/remote_setup.hpp"

namespace via::ka {

class NetSocket {
  public:
    struct Received {
        AgentAddress peer;
        AgentAddress local;
        std::size_t bytes = 0;
    };
    /// What the network said about a datagram that was sent.
    struct Complaint {
        AgentAddress peer;
        bool refused = false;
        std::string why;
    };

    [[nodiscard]] static base::Result<NetSocket> bind(std::uint16_t port);

    [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
    /// A complaint, if it is known at once that it does not get there. A full buffer is no
    /// complaint: the datagram is lost like one on its way.
    [[nodiscard]] std::optional<Complaint> send(const Datagram& datagram) const;
    /// Empty: nothing is there.
    [[nodiscard]] std::optional<Received> receive(std::span<std::uint8_t> buffer) const;
    [[nodiscard]] std::optional<Complaint> complaint() const;

  private:
    NetSocket(base::UniqueFd socket, bool six) : socket_(std::move(socket)), six_(six) {}

    base::UniqueFd socket_;
    bool six_;  // of IPv6, which takes IPv4 as well
};

}  // namespace via::ka
