// SPDX-License-Identifier: BSD-3-Clause
#include "ka/conversation.hpp"

#include <poll.h>

#include <array>
#include <string>
#include <utility>

namespace via::ka {

using base::Code;
using base::Error;
using base::Result;

Result<AgentMessage> read_agent_message(const base::UniqueFd& socket) {
    std::array<std::byte, max_message_bytes + 1> buffer;
    auto received = base::receive_message(socket, buffer);
    // A reset is reported before what was said ahead of it; asking again reads that.
    for (int i = 0; i < 2 && !received && received.error().code == Code::ConnectionLost; ++i)
        received = base::receive_message(socket, buffer);
    if (!received) return std::move(received).error();
    base::ReceivedMessage& message = received.value();
    if (message.bytes == 0)
        return Result<AgentMessage>(Code::ConnectionLost, "the kernel agent has closed the socket");
    auto reply = decode_reply(std::span(buffer).first(std::min(message.bytes, max_message_bytes)));
    if (!reply) {
        Error error = std::move(reply).error();
        error.sentence =
            "the kernel agent said something that is not understood: " + error.sentence;
        return error;
    }
    return AgentMessage{std::move(reply).value(), std::move(message.fds), message.truncated};
}

Result<AgentMessage> Conversation::ask_encoded(std::span<const std::byte> message,
                                               std::span<const int> fds) {
    const std::uint64_t id = last_id_;
    if (auto sent = base::send_message(socket_, message, fds, deadline_); !sent) {
        // A turned-away process finds the reason in its socket.
        if (sent.error().code != Code::ConnectionLost) return std::move(sent).error();
    }
    for (;;) {
        auto read = read_agent_message(socket_);
        if (!read) {
            if (read.error().code != Code::Timeout) return read;
            if (deadline_.expired())
                return Result<AgentMessage>(Code::Timeout, "the kernel agent does not answer");
            pollfd watched{socket_.get(), POLLIN, 0};
            poll(&watched, 1, deadline_.poll_milliseconds());
            continue;
        }
        AgentMessage& answer = read.value();
        const auto* failure = std::get_if<FailedReply>(&answer.reply.body);
        // Number 0: turned away before anything was asked.
        if (failure != nullptr && (answer.reply.id == id || answer.reply.id == 0))
            return error_of(*failure);
        if (answer.reply.id == id) return read;
        unclaimed_.push_back(std::move(answer));
    }
}

Result<void> Conversation::tell(std::span<const std::byte> message) {
    for (;;) {
        auto sent = base::send_message(socket_, message, {}, base::Deadline::at(0));
        if (sent || sent.error().code != Code::Timeout) return sent;
        if (deadline_.expired())
            return Result<void>(Code::Timeout, "the kernel agent does not read");
        // It may be waiting for us to read.
        auto read = read_agent_message(socket_);
        if (read) {
            unclaimed_.push_back(std::move(read).value());
            continue;
        }
        if (read.error().code != Code::Timeout) return std::move(read).error();
        pollfd watched{socket_.get(), POLLIN | POLLOUT, 0};
        poll(&watched, 1, deadline_.poll_milliseconds());
    }
}

Result<void> Conversation::restore(const Holdings& holdings) {
    // Arenas first: regions and blocks lie in them; VIs before their connections.
    for (const auto& [number, arena] : holdings.arenas()) {
        RestoreArenaRequest restored;
        restored.bytes = arena.mapping.size();
        restored.arena = number;
        restored.tag = arena.tag;
        restored.dedicated = arena.dedicated ? 1 : 0;
        const std::array fds{arena.file.get()};
        if (auto done = demand(restored, fds); !done) return done;
        RestoreBlocksRequest batch;
        batch.arena = number;
        for (const auto& [offset, bytes] : arena.blocks) {
            batch.blocks[batch.count++] = BlockRecord{offset, bytes};
            if (batch.count < batch.capacity) continue;
            if (auto done = demand(batch); !done) return done;
            batch.count = 0;
        }
        if (batch.count > 0)
            if (auto done = demand(batch); !done) return done;
    }
    RestoreRegionsRequest regions;
    for (const auto& [handle, region] : holdings.regions) {
        regions.regions[regions.count++] = RegionRecord{handle, 0, region};
        if (regions.count < regions.capacity) continue;
        if (auto done = demand(regions); !done) return done;
        regions.count = 0;
    }
    if (regions.count > 0)
        if (auto done = demand(regions); !done) return done;
    RestoreVisRequest vis;
    for (const std::uint32_t vi : holdings.vis) {
        vis.vis[vis.count++] = vi;
        if (vis.count < vis.capacity) continue;
        if (auto done = demand(vis); !done) return done;
        vis.count = 0;
    }
    if (vis.count > 0)
        if (auto done = demand(vis); !done) return done;
    RestoreConnectionsRequest connections;
    for (const auto& [number, held] : holdings.connections) {
        connections.connections[connections.count++] = held.record;
        if (connections.count < connections.capacity) continue;
        if (auto done = demand(connections); !done) return done;
        connections.count = 0;
    }
    if (connections.count > 0)
        if (auto done = demand(connections); !done) return done;
    return demand(RestoreDoneRequest{});
}

}  // namespace via::ka
