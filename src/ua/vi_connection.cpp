// SPDX-License-Identifier: BSD-3-Clause
// How a VI gets its connection and loses it: as client, as server, or as one of two peers. What may
// happen in which state is in vi_state.hpp.
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/counters.hpp"
#include "ua/nic.hpp"
#include "ua/process.hpp"
#include "ua/tables.hpp"
#include "ua/virtual_interface.hpp"

namespace via::ua {
namespace {

/// Calls into the device while a VI is being connected: whatever happens, the VI must hear of an
/// outcome, or it would be pending for ever.
template <class Connect>
auto with_outcome(Connect connect) -> decltype(connect()) {
    try {
        return connect();
    } catch (const std::bad_alloc&) {
        return decltype(connect())(base::out_of_memory());
    }
}

}  // namespace

base::Result<void> VirtualInterface::begin_connect(std::uint64_t expected) {
    const base::BiasedGuard guard(lock_);
    if (!is(expected))
        return base::Result<void>(base::Code::InvalidArgument, "the VI has been destroyed");
    if (!transition(state_, ViEvent::ConnectStarted).allowed)
        return base::Result<void>(base::Code::InvalidState,
                                  "a VI can only be connected while it is Idle");
    if (connecting())
        return base::Result<void>(base::Code::InvalidState,
                                  "another thread is still connecting the VI");
    apply(ViEvent::ConnectStarted);
    connecting_ = true;
    return {};
}

base::Result<ka::EndpointAttributes> VirtualInterface::end_connect(base::Result<void>&& outcome) {
    ka::EndpointAttributes remote;
    {
        const base::BiasedGuard guard(lock_);
        const bool wanted = state_ == ViState::ConnectPending && orphan_ == 0;
        if (outcome.ok() && !wanted) {
            endpoint_->disconnect();
            outcome = base::Error{base::Code::InvalidState,
                                  "the VI was disconnected while the connection was pending"};
        }
        if (outcome.ok()) take_carrier();
        if (wanted) apply(outcome.ok() ? ViEvent::ConnectSucceeded : ViEvent::ConnectFailed);
        peer_finished_ = outcome.ok();
        remote = queues_->remote;
    }
    // The peer may have sent before anybody here was ready to be rung.
    if (outcome.ok()) nic_->process().look_after();
    nic_->process().publish_rmmt_epoch();
    let_go();
    if (!outcome.ok()) return std::move(outcome).error();
    return remote;
}

/// A device that is several may have chosen one of them for this connection.
void VirtualInterface::take_carrier() {
    carrier_ = &endpoint_->carrier();
    if (const std::string_view device = endpoint_->chosen_device(); !device.empty())
        base::Counters::get().set_device(*queues_->counters, device);
}

/// The end of a call into the device to connect the endpoint.
void VirtualInterface::let_go() {
    std::uint64_t orphan;
    {
        const base::BiasedGuard guard(lock_);
        connecting_ = false;
        peer_waiting_ = false;
        orphan = std::exchange(orphan_, 0);
    }
    if (orphan == 0) return;
    finish_close();
    vi_table().give_back(orphan);
}

base::Result<ka::EndpointAttributes> VirtualInterface::connect_request(std::uint64_t expected,
                                                                       const ka::NetAddress& local,
                                                                       const ka::NetAddress& remote,
                                                                       base::Deadline deadline) {
    if (auto begun = begin_connect(expected); !begun) return std::move(begun).error();
    return end_connect(with_outcome([&] {
        return nic_->device().connect_request(*endpoint_, {agent_vi_, local, remote}, deadline);
    }));
}

/// What must be the same at both ends.
base::Result<void> VirtualInterface::compare(const ka::EndpointAttributes& theirs) const {
    const ka::EndpointAttributes& own = queues_->local;
    if (own.reliability != theirs.reliability)
        return base::Result<void>(base::Code::ReliabilityMismatch,
                                  "the two VIs have different reliability levels");
    if (own.max_transfer_bytes != theirs.max_transfer_bytes)
        return base::Result<void>(base::Code::TransferSizeMismatch,
                                  "the two VIs have different maximal transfer sizes: " +
                                      std::to_string(own.max_transfer_bytes) + " here, " +
                                      std::to_string(theirs.max_transfer_bytes) + " there");
    if (own.quality_of_service != theirs.quality_of_service)
        return base::Result<void>(base::Code::QosMismatch,
                                  "the two VIs ask for different qualities of service");
    return {};
}

base::Result<void> VirtualInterface::connect_accept(std::uint64_t expected,
                                                    const ka::IncomingRequest& request,
                                                    base::Deadline deadline) {
    if (auto begun = begin_connect(expected); !begun) return begun;
    auto outcome = compare(request.remote_attributes);
    if (outcome)
        outcome = with_outcome([&] {
            return nic_->device().connect_accept(request, *endpoint_,
                                                 {agent_vi_, {}, request.remote}, deadline);
        });
    auto connected = end_connect(std::move(outcome));
    if (!connected) return std::move(connected).error();
    return {};
}

base::Result<void> VirtualInterface::peer_request(std::uint64_t expected,
                                                  const ka::NetAddress& local,
                                                  const ka::NetAddress& remote,
                                                  base::Deadline deadline) {
    if (auto begun = begin_connect(expected); !begun) return begun;
    auto request = with_outcome([&] {
        return nic_->device().peer_request(*endpoint_, {agent_vi_, local, remote}, deadline);
    });
    if (!request) return end_connect(std::move(request).error()).error();
    bool wanted;
    {
        const base::BiasedGuard guard(lock_);
        wanted = state_ == ViState::ConnectPending && orphan_ == 0;
        peer_request_ = wanted ? request.value() : 0;
        peer_finished_ = false;
    }
    if (!wanted) nic_->device().peer_cancel(request.value());  // disconnected meanwhile
    let_go();
    if (!wanted)
        return base::Result<void>(base::Code::InvalidState,
                                  "the VI was disconnected while it was being connected");
    return {};
}

base::Result<ka::EndpointAttributes> VirtualInterface::conclude_peer(base::Result<void>&& outcome) {
    if (outcome.ok()) {
        outcome = compare(queues_->remote);
        const base::BiasedGuard guard(lock_);
        if (!outcome.ok()) endpoint_->disconnect();
    }
    {
        const base::BiasedGuard guard(lock_);
        peer_request_ = 0;
        if (state_ != ViState::ConnectPending && !outcome.ok())
            outcome = base::Error{base::Code::InvalidState,
                                  "the VI was disconnected while the connection was pending"};
    }
    return end_connect(std::move(outcome));
}

std::optional<base::Result<ka::EndpointAttributes>> VirtualInterface::peer_done(
    std::uint64_t expected) {
    using Outcome = base::Result<ka::EndpointAttributes>;
    std::uint64_t request;
    {
        const base::BiasedGuard guard(lock_);
        if (!is(expected)) return Outcome(base::Code::InvalidArgument, "the VI has been destroyed");
        if (state_ != ViState::ConnectPending || peer_request_ == 0)
            return Outcome(base::Code::InvalidState, "no peer connection is pending on this VI");
        if (peer_waiting_) return std::nullopt;  // another thread will tell the outcome
        peer_waiting_ = true;
        request = peer_request_;
    }
    auto outcome = with_outcome([&]() -> std::optional<base::Result<void>> {
        return nic_->device().peer_poll(*endpoint_, request);
    });
    if (!outcome) {
        let_go();
        return std::nullopt;
    }
    return conclude_peer(std::move(*outcome));
}

base::Result<ka::EndpointAttributes> VirtualInterface::peer_wait(std::uint64_t expected) {
    using Outcome = base::Result<ka::EndpointAttributes>;
    std::uint64_t request;
    {
        const base::BiasedGuard guard(lock_);
        if (!is(expected)) return Outcome(base::Code::InvalidArgument, "the VI has been destroyed");
        if (state_ != ViState::ConnectPending || peer_request_ == 0 || peer_waiting_)
            return Outcome(base::Code::InvalidState, "no peer connection is pending on this VI");
        peer_waiting_ = true;
        request = peer_request_;
    }
    return conclude_peer(
        with_outcome([&] { return nic_->device().peer_wait(*endpoint_, request); }));
}

bool VirtualInterface::disconnect(std::uint64_t expected) {
    std::uint64_t pending_peer = 0;
    {
        const base::BiasedGuard guard(lock_);
        if (!is(expected)) return false;
        // A thread inside VipConnectPeerWait ends when its request is cancelled.
        pending_peer = peer_waiting_ ? peer_request_ : std::exchange(peer_request_, 0);
        // A thread that is connecting it finds that nobody wants the connection any more.
        if (!connecting()) endpoint_->disconnect();
        apply(ViEvent::Disconnected);
    }
    if (pending_peer != 0) nic_->device().peer_cancel(pending_peer);
    return true;
}

}  // namespace via::ua
