// SPDX-License-Identifier: BSD-3-Clause
#include "process_watch.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/clock.hpp"
#include "text_table.hpp"

namespace via::tool {

using base::Result;

namespace {

bool wanted(const ka::ProcessStatus& process, const std::string& who) {
    if (who.empty()) return true;
    std::int32_t pid = 0;
    const auto [end, error] = std::from_chars(who.data(), who.data() + who.size(), pid);
    if (error == std::errc{} && end == who.data() + who.size()) return process.pid == pid;
    return process.program.find(who) != std::string::npos;
}

}  // namespace

Result<std::vector<WatchedProcess>> ProcessWatch::look() {
    agent_.reset();
    if (auto attached = attach(); !attached) return std::move(attached).error();
    auto status = client_->status();
    if (!status) {
        client_.reset();  // another agent may be there next time
        return std::move(status).error();
    }
    agent_ = std::move(status).value();
    std::vector<WatchedProcess> processes;
    for (const ka::ProcessStatus& one : agent_->processes) {
        const bool own = one.pid == getpid();
        if ((own && own_ == OwnProcess::LeftOut) || !wanted(one, who_)) continue;
        WatchedProcess process;
        process.agent = one;
        process.agent.program = printable(one.program);
        read_counters_of(process);
        if (own) {
            // It is attached twice: as the one that works, and as the one that looks.
            if (!process.problem.empty()) continue;
            const auto same = std::find_if(
                processes.begin(), processes.end(),
                [&](const WatchedProcess& other) { return other.agent.pid == one.pid; });
            if (same != processes.end()) {
                if (same->agent.regions < one.regions) *same = std::move(process);
                continue;
            }
        }
        processes.push_back(std::move(process));
    }
    before_.clear();
    for (const WatchedProcess& process : processes)
        if (process.problem.empty()) before_[process.agent.pid] = process.counters;
    return processes;
}

Result<void> ProcessWatch::attach() {
    if (client_ != nullptr) return {};
    auto client = ka::AgentClient::attach_if_running({}, base::Deadline::after_milliseconds(3000));
    if (!client) return std::move(client).error();
    client_ = std::move(client).value();
    return {};
}

void ProcessWatch::read_counters_of(WatchedProcess& process) {
    auto file = client_->counters_of(process.agent.pid);
    if (!file) {
        process.problem = file.error().sentence;
        return;
    }
    auto counters = read_counters(file.value());
    if (!counters) {
        process.problem = counters.error().sentence;
        return;
    }
    process.counters = std::move(counters).value();
    const auto found = before_.find(process.agent.pid);
    // A process of the same number that started later is another one.
    if (found != before_.end() && found->second.started_wall_ns == process.counters.started_wall_ns)
        process.before = found->second;
}

bool no_agent(const base::Error& error) {
    return error.code == base::Code::NotFound;
}

void sleep_for(double seconds) {
    timespec span{};
    span.tv_sec = static_cast<time_t>(seconds);
    span.tv_nsec = static_cast<long>((seconds - static_cast<double>(span.tv_sec)) * 1e9);
    nanosleep(&span, nullptr);
}

}  // namespace via::tool
