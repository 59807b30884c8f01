// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent_server.hpp"

namespace via::ka::server {

void Server::restore_arena(Client& client, std::uint64_t id, const RestoreArenaRequest& request,
                           UniqueFd file) {
    if (!client.process->restoring) {
        disposal_.dispose(client.credentials.uid, std::move(file));
        return violate(client, "something to restore at the wrong time");
    }
    if (auto known = base::verify_memory_file(file, request.bytes); !known) {
        disposal_.dispose(client.credentials.uid, std::move(file));
        return reply_error(client, id, known.error());
    }
    if (!may_use_descriptors(client.credentials.uid, 1))
        return reply_error(client, id,
                           Error{Code::OutOfResources,
                                 "the user has its share of the kernel agent's descriptors"});
    reply_result(client, id,
                 client.process->kmem().restore_arena(request.arena, std::move(file), request.bytes,
                                                      request.tag, request.dedicated == 1));
}

void Server::on(Client& client, std::uint64_t id, const RestoreBlocksRequest& request) {
    Result<void> result;
    for (std::uint32_t i = 0; i < request.count && result; ++i)
        result = client.process->kmem().restore_block(
            request.arena, {request.blocks[i].offset, request.blocks[i].bytes});
    reply_result(client, id, result);
}

void Server::on(Client& client, std::uint64_t id, const RestoreRegionsRequest& request) {
    Result<void> result;
    for (std::uint32_t i = 0; i < request.count && result; ++i)
        result = client.process->restore_region(request.regions[i]);
    reply_result(client, id, result);
}

void Server::on(Client& client, std::uint64_t id, const RestoreVisRequest& request) {
    Result<void> result;
    for (std::uint32_t i = 0; i < request.count && result; ++i)
        result = client.process->restore_vi(request.vis[i]);
    reply_result(client, id, result);
}

void Server::on(Client& client, std::uint64_t id, const RestoreConnectionsRequest& request) {
    for (std::uint32_t i = 0; i < request.count; ++i) {
        ConnectionRecord record = request.connections[i];
        record.secret = masked(record.secret);
        Vi* vi = client.process->find_vi(record.vi);
        if (vi == nullptr || vi->connection != 0)
            return reply_error(client, id,
                               Error{Code::InvalidArgument,
                                     "a connection to restore names no free VI of the process"});
        if (auto restored = established_.restore(client.process->number(), record); !restored)
            return reply_error(client, id, restored.error());
        vi->connection = record.connection;
    }
    reply(client, id, DoneReply{});
}

void Server::on(Client& client, std::uint64_t id, const RestoreDoneRequest&) {
    Process& process = *client.process;
    if (process.restoring) {
        process.restoring = false;
        reply(client, id, DoneReply{});
    }
    for (const EstablishedConnections::End& end :
         established_.restored(process.number(), client.credentials.uid, process.instance()))
        tell_gone(end);
}

}  // namespace via::ka::server
