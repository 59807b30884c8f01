// SPDX-License-Identifier: BSD-3-Clause
// Connections of FI_EP_MSG endpoints. The message layer connects by itself whenever there is
// something to say; here two ends agree that they belong together:
//
//     client                              server
//     fi_connect ── Request, token ────▶  listener: FI_CONNREQ
//                                         fi_endpoint with the request, fi_accept
//     FI_CONNECTED ◀── Accept, token ───  from the new endpoint; FI_CONNECTED
//     fi_shutdown ─── Shutdown ────────▶  FI_SHUTDOWN (also when the peer is lost)
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>

#include "mvich/device.hpp"

namespace via::ofi {

class Endpoint;

/// What a listener has heard of, until the program answers it. Its address is the `handle` of the
/// info that the program gets.
struct ConnectionRequest : fid {
    mvich::HostPort client;
    mvich::HostPort listener;
    std::uint64_t token = 0;
};

extern fi_ops_cm name_operations;       ///< of connectionless endpoints
extern fi_ops_cm connected_operations;  ///< of connected ones
extern fi_ops_cm no_connections;        ///< of what is no endpoint at all

class Connection final : public mvich::ControlListener {
  public:
    explicit Connection(Endpoint& endpoint);
    ~Connection() override;

    /// Of the info that the endpoint is made from: a request, a listener whose name the endpoint
    /// takes over, or nothing.
    [[nodiscard]] int take_handle(const fi_info& info);

    [[nodiscard]] int connect(const mvich::HostPort& listener, const void* data, std::size_t bytes);
    [[nodiscard]] int accept(const void* data, std::size_t bytes);
    [[nodiscard]] int shut_down();
    [[nodiscard]] std::optional<mvich::HostPort> peer();
    /// As sockets have it: an accepted endpoint bears the listener's name, and its client sees it
    /// under that.
    [[nodiscard]] const std::optional<mvich::HostPort>& shown_name() const noexcept {
        return shown_name_;
    }

    void word(const mvich::HostPort& from, std::span<const std::byte> bytes) override;
    void lost(const mvich::HostPort& peer, mvich::Status status) override;

  private:
    enum class State : std::uint8_t { Idle, Connecting, Connected, Shut };

    [[nodiscard]] int say(const mvich::HostPort& to, std::vector<std::byte> bytes);

    Endpoint& endpoint_;
    std::unique_ptr<ConnectionRequest> request_;
    // Not held while the message layer is called: it calls back with its own lock held.
    std::mutex mutex_;
    State state_ = State::Idle;
    std::uint64_t token_ = 0;
    mvich::HostPort peer_;  ///< Connecting: the listener
    mvich::HostPort shown_peer_;
    std::optional<mvich::HostPort> shown_name_;
};

}  // namespace via::ofi
