// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "ka/agent_server.hpp"

namespace via::ka::server {

Result<void> Server::prepare() {
    now_ = base::monotonic_now();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = stop_key;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_event_.get(), &event) != 0)
        return base::system_error(errno, "cannot watch a descriptor");
    event.data.u64 = listener_key;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket_.listener().get(), &event) != 0)
        return base::system_error(errno, "cannot watch the agent's socket");
    listening_ = true;
    return {};
}

void Server::stop() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_event_.get(), &one, sizeof one);
}

Deadline Server::next_deadline() const {
    Deadline next = broker_.next_deadline().earlier(accept_again_);
    next = next.earlier(remote_.next_deadline()).earlier(net_again_);
    // Who came first must introduce himself first.
    if (!strangers_.empty()) next = next.earlier(clients_.at(*strangers_.begin())->introduction);
    if (options_.on_demand && processes_.empty() && strangers_.empty())
        next = next.earlier(Deadline::at(
            idle_since_ + static_cast<Nanoseconds>(options_.idle_seconds) * 1'000'000'000));
    return next;
}

Result<void> Server::run() {
    open_net();
    std::array<epoll_event, 64> events{};
    while (!stopping_) {
        const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                     next_deadline().poll_milliseconds());
        if (count < 0 && errno != EINTR)
            return base::system_error(errno, "the kernel agent cannot wait for events");
        now_ = base::monotonic_now();
        for (int i = 0; i < count; ++i) {
            const epoll_event& event = events[static_cast<std::size_t>(i)];
            const std::uint64_t what = event.data.u64 & 3;
            if (event.data.u64 == listener_key) {
                accept_clients();
                continue;
            }
            if (event.data.u64 == stop_key) {
                stopping_ = true;
                continue;
            }
            if (event.data.u64 == net_key) {
                serve_net();
                continue;
            }
            const auto found = clients_.find(event.data.u64 >> 2);
            if (found == clients_.end() || found->second->closing) continue;
            Client& client = *found->second;
            if (what == pidfd_key) {
                close_client(client);
                dirty_.insert(client.number);
                continue;
            }
            if ((event.events & EPOLLOUT) != 0) flush(client);
            // Also on a hang-up: what was sent before it counts.
            if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_from(client);
            dirty_.insert(client.number);
        }
        Outcomes outcomes;
        broker_.expire(now_, outcomes);
        deliver(std::move(outcomes));
        SetupOutput output;
        remote_.expire(now_, output);
        deliver(output);
        if (net_again_.expired(now_)) open_net();
        if (accept_again_.expired(now_)) watch_listener(true);
        for (const std::uint64_t number : strangers_) {
            Client& client = *clients_.at(number);
            if (!client.introduction.expired(now_)) break;
            close_client(client);
            dirty_.insert(number);
        }
        reap();
        const bool idle = processes_.empty() && strangers_.empty();
        if (idle != idle_) idle_since_ = now_;
        idle_ = idle;
        if (idle && options_.on_demand &&
            now_ - idle_since_ >= static_cast<Nanoseconds>(options_.idle_seconds) * 1'000'000'000) {
            base::log(LogLevel::Info, "the kernel agent ends: nobody has needed it for " +
                                          std::to_string(options_.idle_seconds) + " s");
            stopping_ = true;
        }
    }
    return {};
}

}  // namespace via::ka::server

namespace via::ka {

base::Result<std::unique_ptr<Agent>> Agent::create(const AgentOptions& options) {
    auto socket = AgentSocket::bind(options.socket);
    if (!socket) return std::move(socket).error();
    base::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.valid()) return base::system_error(errno, "cannot create an epoll descriptor");
    base::UniqueFd stop_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!stop_event.valid()) return base::system_error(errno, "cannot create an eventfd");
    auto server = std::make_unique<server::Server>(options, std::move(socket).value(),
                                                   std::move(epoll), std::move(stop_event));
    if (auto prepared = server->prepare(); !prepared) return std::move(prepared).error();
    return std::unique_ptr<Agent>(std::move(server));
}

}  // namespace via::ka
