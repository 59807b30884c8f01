// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/connection_manager.hpp"

#include <random>

#include "ofi/address.hpp"
#include "ofi/connection_word.hpp"
#include "ofi/domain.hpp"
#include "ofi/endpoint.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/fabric.hpp"
#include "ofi/passive_endpoint.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

using Kind = ConnectionWord::Kind;

std::span<const std::byte> bytes_of(const void* data, std::size_t bytes) noexcept {
    return {static_cast<const std::byte*>(data), bytes};
}

int set_name(struct fid* fid, void* address, std::size_t bytes) {
    return guarded([&] {
        Endpoint& endpoint = *handle_of(fid).endpoint;
        const auto name = read_address(endpoint.address_format(), address, bytes);
        if (!name) return -FI_EINVAL;
        return endpoint.set_name(*name) ? 0 : -FI_EOPBADSTATE;
    });
}

int get_name(struct fid* fid, void* address, std::size_t* bytes) {
    return guarded([&] {
        Endpoint& endpoint = *handle_of(fid).endpoint;
        const Connection* const connection = endpoint.connection();
        const mvich::HostPort name = connection != nullptr && connection->shown_name()
                                         ? *connection->shown_name()
                                         : endpoint.name();
        return write_address(endpoint.address_format(), name, address, bytes);
    });
}

int get_peer(fid_ep* fid, void* address, std::size_t* bytes) {
    return guarded([&] {
        Endpoint& endpoint = *handle_of(fid).endpoint;
        const auto peer = endpoint.connection()->peer();
        if (!peer) return -FI_ENOTCONN;
        return write_address(endpoint.address_format(), *peer, address, bytes);
    });
}

int connect(fid_ep* fid, const void* address, const void* data, std::size_t bytes) {
    return guarded([&] {
        Endpoint& endpoint = *handle_of(fid).endpoint;
        const auto listener = read_address(endpoint.address_format(), address, sizeof(sockaddr_in));
        if (!listener || bytes > max_connection_data) return -FI_EINVAL;
        return endpoint.connection()->connect(*listener, data, bytes);
    });
}

int accept(fid_ep* fid, const void* data, std::size_t bytes) {
    return guarded([&] {
        if (bytes > max_connection_data) return -FI_EINVAL;
        return handle_of(fid).endpoint->connection()->accept(data, bytes);
    });
}

int shut_down(fid_ep* fid, std::uint64_t flags) {
    return guarded([&] {
        if (flags != 0) return -FI_EINVAL;
        return handle_of(fid).endpoint->connection()->shut_down();
    });
}

}  // namespace

Connection::Connection(Endpoint& endpoint) : endpoint_(endpoint) {}

Connection::~Connection() = default;

int Connection::take_handle(const fi_info& info) {
    if (info.handle == nullptr) return 0;
    switch (info.handle->fclass) {
        case FI_CLASS_CONNREQ:
            request_ = endpoint_.domain().fabric().take_request(info.handle);
            if (request_ == nullptr) return -FI_EINVAL;
            shown_name_ = request_->listener;
            return endpoint_.set_name({request_->listener.host, request_->listener.host_bytes, 0})
                       ? 0
                       : -FI_EOPBADSTATE;
        case FI_CLASS_PEP: {
            auto& listener =
                static_cast<PassiveEndpoint&>(*reinterpret_cast<fid_pep*>(info.handle));
            return endpoint_.set_name(listener.give_up_name()) ? 0 : -FI_EOPBADSTATE;
        }
        default:
            return -FI_EINVAL;
    }
}

int Connection::say(const mvich::HostPort& to, std::vector<std::byte> bytes) {
    const auto said = endpoint_.wire()->say(to, bytes);
    if (said) return 0;
    VIA_OFI_WARN(FI_LOG_EP_CTRL, "%s: %s\n", text_of(to).c_str(), said.error().sentence.c_str());
    return -error_number(said.error().code);
}

int Connection::connect(const mvich::HostPort& listener, const void* data, std::size_t bytes) {
    if (const int error = endpoint_.enable()) return error;
    std::random_device random;
    std::uint64_t token = 0;
    {
        const std::lock_guard guard(mutex_);
        if (state_ == State::Connected || state_ == State::Connecting) return -FI_EISCONN;
        if (state_ == State::Shut) return -FI_EOPBADSTATE;
        state_ = State::Connecting;
        peer_ = shown_peer_ = listener;
        token = token_ = (static_cast<std::uint64_t>(random()) << 32) | random();
    }
    const int error =
        say(listener, ConnectionWord{Kind::Request, token, bytes_of(data, bytes)}.encode());
    if (error != 0) {
        const std::lock_guard guard(mutex_);
        state_ = State::Idle;
    }
    return error;
}

int Connection::accept(const void* data, std::size_t bytes) {
    if (request_ == nullptr) return -FI_EOPBADSTATE;
    if (const int error = endpoint_.enable()) return error;
    const std::unique_ptr<ConnectionRequest> request = std::move(request_);
    if (endpoint_.book().insert(request->client) != 0) return -FI_EOPBADSTATE;
    {
        const std::lock_guard guard(mutex_);
        state_ = State::Connected;
        peer_ = shown_peer_ = request->client;
        token_ = request->token;
    }
    if (const int error =
            say(request->client,
                ConnectionWord{Kind::Accept, request->token, bytes_of(data, bytes)}.encode()))
        return error;
    endpoint_.events()->add_connection(FI_CONNECTED, &endpoint_.handle().fid, nullptr, nullptr, 0);
    return 0;
}

int Connection::shut_down() {
    mvich::HostPort peer;
    std::uint64_t token = 0;
    {
        const std::lock_guard guard(mutex_);
        if (state_ != State::Connected) return state_ == State::Shut ? 0 : -FI_ENOTCONN;
        state_ = State::Shut;
        peer = peer_;
        token = token_;
    }
    // If it can not be said, the peer hears of the end of this endpoint in another way.
    static_cast<void>(say(peer, ConnectionWord{Kind::Shutdown, token, {}}.encode()));
    endpoint_.events()->add_connection(FI_SHUTDOWN, &endpoint_.handle().fid, nullptr, nullptr, 0);
    return 0;
}

std::optional<mvich::HostPort> Connection::peer() {
    const std::lock_guard guard(mutex_);
    if (state_ != State::Connected) return std::nullopt;
    return shown_peer_;
}

void Connection::word(const mvich::HostPort& from, std::span<const std::byte> bytes) {
    const auto word = ConnectionWord::decode(bytes);
    if (!word) return;
    EventQueue& events = *endpoint_.events();
    struct fid* const fid = &endpoint_.handle().fid;
    const std::lock_guard guard(mutex_);
    if (word->token != token_) return;
    switch (word->kind) {
        case Kind::Accept:
            if (state_ != State::Connecting || endpoint_.book().insert(from) != 0) return;
            state_ = State::Connected;
            peer_ = from;
            events.add_connection(FI_CONNECTED, fid, nullptr, word->data.data(), word->data.size());
            return;
        case Kind::Reject:
            if (state_ != State::Connecting || from != peer_) return;
            state_ = State::Idle;
            events.add_error(fid, fid->context, 0, FI_ECONNREFUSED, word->data.data(),
                             word->data.size());
            return;
        case Kind::Shutdown:
            if (state_ != State::Connected || from != peer_) return;
            state_ = State::Shut;
            events.add_connection(FI_SHUTDOWN, fid, nullptr, nullptr, 0);
            return;
        case Kind::Request:
            return;
    }
}

void Connection::lost(const mvich::HostPort& peer, mvich::Status) {
    EventQueue& events = *endpoint_.events();
    struct fid* const fid = &endpoint_.handle().fid;
    const std::lock_guard guard(mutex_);
    if (peer != peer_) return;
    if (state_ == State::Connecting) {
        state_ = State::Idle;
        events.add_error(fid, fid->context, 0, FI_ECONNREFUSED, nullptr, 0);
    } else if (state_ == State::Connected) {
        state_ = State::Shut;
        events.add_connection(FI_SHUTDOWN, fid, nullptr, nullptr, 0);
    }
}

fi_ops_cm name_operations = {
    .size = sizeof(fi_ops_cm),
    .setname = set_name,
    .getname = get_name,
    .getpeer = not_supported,
    .connect = not_supported,
    .listen = not_supported,
    .accept = not_supported,
    .reject = not_supported,
    .shutdown = not_supported,
    .join = not_supported,
};

fi_ops_cm connected_operations = {
    .size = sizeof(fi_ops_cm),
    .setname = set_name,
    .getname = get_name,
    .getpeer = get_peer,
    .connect = connect,
    .listen = not_supported,
    .accept = accept,
    .reject = not_supported,
    .shutdown = shut_down,
    .join = not_supported,
};

fi_ops_cm no_connections = {
    .size = sizeof(fi_ops_cm),
    .setname = not_supported,
    .getname = not_supported,
    .getpeer = not_supported,
    .connect = not_supported,
    .listen = not_supported,
    .accept = not_supported,
    .reject = not_supported,
    .shutdown = not_supported,
    .join = not_supported,
};

}  // namespace via::ofi
