// SPDX-License-Identifier: BSD-3-Clause
#include "ka/client_attachment.hpp"

#include <utility>

namespace via::ka::attachment {

std::vector<std::uint64_t> Client::lost_connections() {
    if (forked()) return {};
    Lock lock(mutex_);
    read_what_is_there(lock);
    std::vector<std::uint64_t> lost;
    lost.reserve(untold_);
    if (untold_ != 0) {
        for (auto& [connection, held] : holdings_.connections) {
            if (!held.alone || held.told) continue;
            held.told = true;
            lost.push_back(connection);
        }
    }
    untold_ = 0;
    update_watch();
    return lost;
}

bool Client::is_lost(std::uint64_t connection) {
    if (forked()) return false;
    const Lock lock(mutex_);
    return is_alone(connection);
}

std::vector<AgentClient::LinkPolicyWish> Client::link_policy_wishes() {
    if (forked()) return {};
    Lock lock(mutex_);
    read_what_is_there(lock);
    auto wishes = std::exchange(wishes_, {});
    update_watch();
    return wishes;
}

// ---- for people

Result<AgentStatus> Client::status() {
    AgentStatus status;
    std::uint64_t last = 0;
    for (;;) {
        auto reply = expect<StatusPageReply>(call_plain(StatusRequest{last}));
        if (!reply) return std::move(reply).error();
        const StatusPageReply& page = reply.value();
        status.pid = page.pid;
        status.uid = page.uid;
        status.version = page.version.text();
        status.socket = page.socket.text();
        status.on_demand = page.on_demand == 1;
        status.uptime_seconds = page.uptime_seconds;
        status.idle_seconds_limit = page.idle_seconds_limit;
        status.huge_pages = page.huge_pages == 1;
        status.net_port = static_cast<std::uint16_t>(page.net_port);
        status.net_key = page.net_key == 1;
        status.net_problem = page.net_problem.text();
        for (std::uint32_t i = 0; i < page.count; ++i) {
            const ProcessRecord& record = page.processes[i];
            status.processes.push_back(ProcessStatus{
                record.pid, record.uid, record.program.text(), record.attached_seconds, record.vis,
                record.connections, record.waiting, record.regions, record.registered_bytes,
                record.kmem_bytes});
            last = record.process;
        }
        if (page.more == 0) return status;
    }
}

Result<UniqueFd> Client::counters_of(std::int32_t pid) {
    auto answer = call_plain(CountersOfRequest{pid, 0});
    auto granted = expect<CountersGrantedReply>(answer);
    if (!granted) return std::move(granted).error();
    if (answer.value().fds.size() != 1) return lost_descriptors();
    return std::move(answer.value().fds.front());
}

Result<void> Client::wish_link_policy(std::int32_t pid, const LinkPolicyWish& wish) {
    return expect_done<DoneReply>(
        call_plain(SetLinkPolicyRequest{pid, wish.vi_slot, FixedText<16>(wish.policy)}));
}

Result<void> Client::stop_agent() {
    auto done =
        expect_done<DoneReply>(call([](bool) { return StopRequest{}; }, answer_deadline(), false));
    // It may be faster at ending than at answering.
    if (!done && done.error().code == Code::ConnectionLost) return {};
    return done;
}

}  // namespace via::ka::attachment
