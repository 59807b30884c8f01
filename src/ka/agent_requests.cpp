// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent_server.hpp"

namespace via::ka::server {

bool Server::handle_common(Client& client, std::uint64_t id, const RequestBody& body) {
    if (const auto* request = std::get_if<StatusRequest>(&body)) {
        status(client, id, *request);
        return true;
    }
    if (const auto* request = std::get_if<CountersOfRequest>(&body)) {
        counters_of(client, id, *request);
        return true;
    }
    if (const auto* request = std::get_if<SetLinkPolicyRequest>(&body)) {
        set_link_policy(client, id, *request);
        return true;
    }
    if (std::holds_alternative<StopRequest>(body)) {
        stop_by(client, id);
        return true;
    }
    return false;
}

void Server::handle(Client& client, std::uint64_t id, const RequestBody& body, base::FdList fds) {
    if (const auto* arena = std::get_if<RestoreArenaRequest>(&body))
        return restore_arena(client, id, *arena, std::move(fds.front()));
    std::visit(
        [&](const auto& request) {
            using Body = std::decay_t<decltype(request)>;
            if constexpr (requires { on(client, id, request); }) {
                constexpr bool restores = std::is_same_v<Body, RestoreBlocksRequest> ||
                                          std::is_same_v<Body, RestoreRegionsRequest> ||
                                          std::is_same_v<Body, RestoreVisRequest> ||
                                          std::is_same_v<Body, RestoreConnectionsRequest> ||
                                          std::is_same_v<Body, RestoreDoneRequest>;
                if (restores != client.process->restoring)
                    return violate(client, restores ? "something to restore at the wrong time"
                                                    : "a request before it had restored all");
                on(client, id, request);
            }
        },
        body);
}

void Server::on(Client& client, std::uint64_t id, const RegisterRequest& request) {
    auto handle = client.process->register_memory(request);
    if (!handle) return reply_error(client, id, handle.error());
    reply(client, id, RegisteredReply{handle.value(), 0});
}

void Server::on(Client& client, std::uint64_t id, const DeregisterRequest& request) {
    reply_result(client, id, client.process->deregister_memory(request.handle));
}

void Server::on(Client& client, std::uint64_t id, const ChangeMemoryRequest& request) {
    reply_result(client, id, client.process->change_memory(request));
}

void Server::on(Client& client, std::uint64_t id, const TranslateRequest& request) {
    auto region = client.process->region(request.handle);
    if (!region) return reply_error(client, id, std::move(region).error());
    const Region& found = region.value();
    reply(client, id,
          TranslatedReply{found.address, found.length, found.arena_offset, found.tag, found.rights,
                          found.arena, 0});
}

void Server::on(Client& client, std::uint64_t id, const AllocateKmemRequest& request) {
    Kmem& kmem = client.process->kmem();
    if (!may_use_descriptors(client.credentials.uid, 1))
        return reply_error(client, id,
                           Error{Code::OutOfResources,
                                 "the user has its share of the kernel agent's descriptors; the "
                                 "agent's RLIMIT_NOFILE is " +
                                     std::to_string(descriptor_limit())});
    auto allocation = kmem.allocate(request.bytes, request.tag, request.ordinary_pages == 0);
    if (!allocation) return reply_error(client, id, allocation.error());
    const auto& [number, block, new_arena] = allocation.value();
    const Kmem::Arena* arena = kmem.find(number);
    KmemAllocatedReply answer;
    answer.offset = block.offset;
    answer.bytes = block.bytes;
    answer.arena_bytes = arena->bytes;
    answer.arena = number;
    answer.tag = arena->tag;
    answer.new_arena = new_arena ? 1 : 0;
    answer.huge_pages = arena->huge_pages ? 1 : 0;
    answer.dedicated = arena->dedicated ? 1 : 0;
    std::vector<SharedFd> fds;
    if (new_arena) fds.push_back(arena->file);
    reply(client, id, answer, std::move(fds));
}

void Server::on(Client& client, std::uint64_t id, const FreeKmemRequest& request) {
    auto freed = client.process->kmem().free(request.arena, request.offset);
    if (!freed) return reply_error(client, id, freed.error());
    reply(client, id,
          KmemFreedReply{request.offset, request.arena,
                         freed.value() == Kmem::Freed::ReleasedArena ? 1U : 0U});
}

void Server::on(Client& client, std::uint64_t id, const CreateViRequest&) {
    auto vi = client.process->create_vi();
    if (!vi) return reply_error(client, id, vi.error());
    reply(client, id, ViCreatedReply{vi.value(), 0});
}

// ---- grants

void Server::on(Client& client, std::uint64_t id, const PeerArenaRequest& request) {
    const ProcessNumber number = client.process->number();
    const auto refuse = [&](Code code, std::string sentence) {
        reply_error(client, id, Error{code, std::move(sentence)});
    };
    if (established_.find(number, request.connection) == nullptr)
        return refuse(Code::InvalidArgument, "there is no such connection");
    const EstablishedConnections::End* peer = established_.other(number, request.connection);
    Client* owner = peer == nullptr ? nullptr : client_of(peer->process);
    if (owner == nullptr)
        return refuse(Code::InvalidState,
                      "the process at the other end is not attached to this kernel agent");
    const Kmem::Arena* arena = owner->process->kmem().find(request.arena);
    // The same answer for "there is none" and "not for you": it tells nothing about the peer.
    const bool granted =
        arena != nullptr && (arena->tag == peer->tag || (peer->flags & endpoint_any_tag) != 0);
    if (!granted)
        return refuse(Code::PermissionDenied, "the connection gives no right to kmem arena " +
                                                  std::to_string(request.arena) + " of the peer");
    if (arena->huge_pages && owner->credentials.uid != client.credentials.uid)
        return refuse(Code::NotSupported,
                      "memory of huge pages is not shared between different users");
    reply(client, id, ArenaGrantedReply{arena->bytes}, {arena->file});
}

void Server::on(Client& client, std::uint64_t id, const PeerRmmtRequest& request) {
    const ProcessNumber number = client.process->number();
    if (established_.find(number, request.connection) == nullptr)
        return reply_error(client, id, Error{Code::InvalidArgument, "there is no such connection"});
    const EstablishedConnections::End* peer = established_.other(number, request.connection);
    const Client* owner = peer == nullptr ? nullptr : client_of(peer->process);
    if (owner == nullptr)
        return reply_error(
            client, id,
            Error{Code::InvalidState,
                  "the process at the other end is not attached to this kernel agent"});
    reply(client, id, RmmtGrantedReply{owner->process->rmmt_epoch(), 0}, {owner->process->rmmt()});
}

// ---- for people

void Server::status(Client& client, std::uint64_t id, const StatusRequest& request) {
    StatusPageReply page;
    page.uptime_seconds = static_cast<std::uint64_t>((now_ - started_) / 1'000'000'000);
    page.idle_seconds_limit = options_.idle_seconds;
    page.pid = getpid();
    page.uid = geteuid();
    page.on_demand = options_.on_demand ? 1 : 0;
    page.huge_pages = options_.kmem.huge_pages && Kmem::huge_pages_free(1) ? 1 : 0;
    page.version = FixedText<32>(options_.version);
    page.socket = FixedText<112>(options_.socket);
    page.net_port = host_.port();
    page.net_key = key_ && key_.value() != wire::cluster_key("") ? 1 : 0;
    page.net_problem = FixedText<200>(net_problem_);
    for (auto next = processes_.upper_bound(request.after_process); next != processes_.end();
         ++next) {
        const Client* other = next->second;
        if (!may_ask(client, *other)) continue;
        if (page.count == page.capacity) {
            page.more = 1;
            break;
        }
        const Process& process = *other->process;
        ProcessRecord& record = page.processes[page.count++];
        record.process = process.number();
        record.attached_seconds =
            static_cast<std::uint64_t>((now_ - process.since()) / 1'000'000'000);
        record.registered_bytes = process.registered_bytes();
        record.kmem_bytes = process.kmem().allocated_bytes();
        record.pid = other->credentials.pid;
        record.uid = other->credentials.uid;
        record.vis = static_cast<std::uint32_t>(process.vis());
        record.connections = static_cast<std::uint32_t>(established_.count(process.number()));
        record.waiting = static_cast<std::uint32_t>(broker_.waiting(process.number()) +
                                                    remote_.waiting(process.number()));
        record.regions = static_cast<std::uint32_t>(process.regions());
        record.program = FixedText<64>(process.program());
    }
    reply(client, id, page);
}

bool Server::may_ask(const Client& client, const Client& other) {
    return client.credentials.uid == 0 || client.credentials.uid == other.credentials.uid;
}

void Server::counters_of(Client& client, std::uint64_t id, const CountersOfRequest& request) {
    for (const auto& [number, other] : processes_)
        if (other->credentials.pid == request.pid && other->process->counters &&
            may_ask(client, *other))
            return reply(client, id, CountersGrantedReply{}, {other->process->counters});
    reply_error(client, id,
                Error{Code::NotFound, "process " + std::to_string(request.pid) +
                                          " is not attached, has no counters, or belongs to "
                                          "another user"});
}

void Server::set_link_policy(Client& client, std::uint64_t id,
                             const SetLinkPolicyRequest& request) {
    bool told = false;
    for (const auto& [number, other] : processes_) {
        if (other->credentials.pid != request.pid || !may_ask(client, *other)) continue;
        // A process that stands still is not cut off for the wishes of its user.
        if (other->output.size() >= options_.limits.owed_messages / 2)
            return reply_error(
                client, id,
                Error{Code::OutOfResources, "process " + std::to_string(request.pid) +
                                                " does not read what its kernel agent says"});
        reply(*other, 0, LinkPolicyEvent{request.vi_slot, 0, request.policy});
        told = true;
    }
    if (told) return reply(client, id, DoneReply{});
    reply_error(client, id,
                Error{Code::NotFound, "process " + std::to_string(request.pid) +
                                          " is not attached, or belongs to another user"});
}

void Server::stop_by(Client& client, std::uint64_t id) {
    const uid_t uid = client.credentials.uid;
    if (uid != 0 && uid != geteuid())
        return reply_error(
            client, id,
            Error{Code::PermissionDenied, "only user " + std::to_string(geteuid()) +
                                              " and root can stop this kernel agent"});
    log(LogLevel::Info, "the kernel agent ends: process " + std::to_string(client.credentials.pid) +
                            " asked for it");
    reply(client, id, DoneReply{});
    stopping_ = true;
}

}  // namespace via::ka::server
