// SPDX-License-Identifier: BSD-3-Clause
#include "net/shared_link.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "bare/pinning.hpp"
#include "lab/names.hpp"
#include "lab/system_programs.hpp"
#include "net/host_sockets.hpp"
#include "two_processes.hpp"

namespace via::bench {

namespace {

using base::Deadline;
using base::Result;

constexpr std::size_t block = std::size_t{1} << 16;

/// Writes or reads until time is over; its parent ends it before.
template <class Step>
Result<Companion> start_loop(int core, Deadline deadline, const Step& step) {
    return Companion::start([&](Companion&) -> Result<void> {
        if (auto pinned = bare::pin_to(core); !pinned) return pinned;
        std::vector<char> buffer(block, 's');
        while (!deadline.expired()) {
            const ssize_t count = step(buffer);
            if (count == 0) break;
            if (count < 0 && errno != EAGAIN && errno != EINTR) {
                return base::system_error(errno, "a TCP stream on a shared link");
            }
        }
        return {};
    });
}

/// What TCP has put on the wire by this socket, headers and repetitions included.
Result<double> bytes_on_wire(const base::UniqueFd& fd) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
        return base::system_error(errno, "ask a TCP socket what it has sent");
    }
    constexpr double headers = 14 + 20 + 20 + 12;  // Ethernet, IP, TCP with its time stamps
    return static_cast<double>(info.tcpi_bytes_sent) +
           headers * static_cast<double>(info.tcpi_segs_out);
}

/// What the queue before the link has let through, which counts packets as on the wire; the
/// device itself counts the headers of a train once.
Result<double> carried_by_link(const NetPlace& place) {
    auto space = place.lab->space("a");
    if (!space) return std::move(space).error();
    auto text = lab::run_program(
        {"tc", "-s", "-json", "qdisc", "show", "dev", lab::device_name(place.link)},
        {space.value(), {}});
    if (!text) return std::move(text).error();
    const auto queues = nlohmann::json::parse(text.value(), nullptr, false);
    if (queues.is_array()) {
        for (const auto& queue : queues) {
            if (queue.value("kind", "") == "tbf" && queue.contains("bytes")) {
                return queue["bytes"].get<double>();
            }
        }
    }
    return {base::Code::NotFound,
            "the shared link has no limited rate; " + last_words(text.value())};
}

struct Carried {
    double all = 0;
    double tcp = 0;
};

Result<Carried> count(const NetPlace& place, const std::vector<HostSockets>& streams) {
    Carried carried;
    for (const HostSockets& stream : streams) {
        auto bytes = bytes_on_wire(stream.a);
        if (!bytes) return std::move(bytes).error();
        carried.tcp += bytes.value();
    }
    auto all = carried_by_link(place);
    if (!all) return std::move(all).error();
    carried.all = all.value();
    return carried;
}

void pause(base::Nanoseconds time) {
    ::usleep(static_cast<useconds_t>(time / 1000));
}

Result<double> measure(const ViaTool& via, const NetPlace& place, const SharedLink& wanted) {
    const Deadline deadline = Deadline::after_milliseconds(place.deadline_seconds * 1000);
    NetForm form;
    form.lab = place.lab;
    form.bytes = std::size_t{1} << 20;
    form.links = lab::device_name(place.link);
    form.block = true;  // all of them share two cores
    Command command = via_net_command(via, "window", form);
    // Longer than it is looked at; then it is ended.
    command.arguments.insert(command.arguments.end(), {"--iterations", "1000000"});
    std::vector<Process> ours;
    for (unsigned i = 0; i < wanted.our_streams; ++i) {
        auto started = Process::start(command);
        if (!started) return std::move(started).error();
        ours.push_back(std::move(started).value());
    }
    std::vector<HostSockets> streams;
    streams.reserve(wanted.tcp_streams);  // the loops refer to them
    std::vector<Companion> loops;
    for (unsigned i = 0; i < wanted.tcp_streams; ++i) {
        auto sockets = connect_tcp(place, wanted.congestion);
        if (!sockets) return std::move(sockets).error();
        const HostSockets& stream = streams.emplace_back(std::move(sockets).value());
        auto reads = start_loop(place.cores.second, deadline, [&](std::vector<char>& buffer) {
            return ::recv(stream.b.get(), buffer.data(), buffer.size(), 0);
        });
        if (!reads) return std::move(reads).error();
        loops.push_back(std::move(reads).value());
        auto writes = start_loop(place.cores.first, deadline, [&](std::vector<char>& buffer) {
            return ::send(stream.a.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL);
        });
        if (!writes) return std::move(writes).error();
        loops.push_back(std::move(writes).value());
    }
    pause(wanted.settle_time);
    auto before = count(place, streams);
    if (!before) return std::move(before).error();
    pause(wanted.time);
    auto after = count(place, streams);
    if (!after) return std::move(after).error();
    for (Process& process : ours) {
        if (process.running()) continue;
        auto outcome = process.finish(deadline);
        return {base::Code::System,
                to_text(command) + ": ended before its time; " +
                    (outcome ? last_words(outcome.value().output + outcome.value().errors)
                             : outcome.error().sentence)};
    }
    const double all = after.value().all - before.value().all;
    const double tcp = after.value().tcp - before.value().tcp;
    if (!(all > 0)) return {base::Code::System, "the shared link carried nothing"};
    return 100 * (1 - tcp / all);
}

}  // namespace

Probe our_share(const ViaTool& via, const NetPlace& place, const SharedLink& wanted) {
    return {"via", Quantity::Percent, via.missing(),
            [via, place, wanted] { return measure(via, place, wanted); }};
}

}  // namespace via::bench
