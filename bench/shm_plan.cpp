// SPDX-License-Identifier: BSD-3-Clause
#include "shm_plan.hpp"

#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <utility>

#include "bare_probes.hpp"

namespace via::bench {

namespace {

constexpr std::size_t kilobyte = 1024;
constexpr std::size_t megabyte = 1024 * 1024;

/// The stream test knows how many buffers it goes round; it is asked once.
std::function<base::Result<std::size_t>()> asked_once(const ViaTool& via, std::size_t bytes) {
    auto answer = std::make_shared<std::optional<std::size_t>>();
    return [via, bytes, answer]() -> base::Result<std::size_t> {
        if (!*answer) {
            auto buffers = via.stream_buffers(bytes);
            if (!buffers) return buffers;
            *answer = buffers.value();
        }
        return **answer;
    };
}

std::string lower_case(std::string text) {
    std::erase(text, ' ');
    for (char& letter : text)
        letter = static_cast<char>(std::tolower(letter));
    return text;
}

void add_rows_of_law(PlanBuilder& builder, const Contestants& with) {
    const ViaTool& via = with.via;
    const Ucx& ucx = with.ucx;
    const auto ucx_latency = [&](std::size_t bytes, Memory memory = Memory::Kmem) {
        return builder.pair(
            fmt::format("latency-{}{}-ucx", bytes, memory == Memory::Heap ? "-heap" : ""),
            show_bytes(bytes) + " latency", via.latency({.bytes = bytes, .memory = memory}),
            ucx.latency(bytes));
    };
    const auto ucx_rate = [&](std::size_t bytes, Memory memory = Memory::Kmem) {
        return builder.pair(
            fmt::format("rate-{}{}-ucx", bytes, memory == Memory::Heap ? "-heap" : ""),
            show_bytes(bytes) + " rate", via.message_rate(bytes, memory), ucx.message_rate(bytes));
    };
    builder.row({"latency-8-bare",
                 "8 B latency ÷ bare one-cache-line ping-pong",
                 Relation::AtMost,
                 1.45,
                 1.2,
                 "",
                 {builder.pair("latency-8-bare", "8 B latency", via.latency({}),
                               bare_one_line(with.cores))}});
    builder.row({"latency-8-ucx",
                 "8 B latency ÷ UCX tag_lat",
                 Relation::AtMost,
                 0.65,
                 0.5,
                 "",
                 {ucx_latency(8)}});
    builder.row({"latency-4k-ucx",
                 "4 KB latency, kmem memory ÷ UCX tag_lat",
                 Relation::AtMost,
                 0.8,
                 0.6,
                 "",
                 {ucx_latency(4 * kilobyte)}});
    builder.row({"rate-8-ucx",
                 "8 B message rate ÷ UCX tag_bw",
                 Relation::AtLeast,
                 1.5,
                 3,
                 "",
                 {ucx_rate(8)}});
    builder.row({"stream-4k-ucx",
                 "4 KB stream, kmem memory ÷ UCX tag_bw",
                 Relation::AtLeast,
                 1.2,
                 1.8,
                 "",
                 {ucx_rate(4 * kilobyte)},
                 4 * kilobyte});
    Row ahead{"ahead-ucx",
              "128 B–4 KB, ordinary memory, ahead of UCX, latency and rate (worst advantage)",
              Relation::Ahead,
              1,
              std::nullopt,
              "all > 1",
              {}};
    for (std::size_t bytes = 128; bytes <= 4 * kilobyte; bytes *= 2) {
        ahead.pairs.push_back(ucx_latency(bytes, Memory::Heap));
        ahead.pairs.push_back(ucx_rate(bytes, Memory::Heap));
    }
    builder.row(std::move(ahead));
    builder.row(
        {"stream-1m-kmem",
         "1 MB stream, kmem memory ÷ memcpy by one core",
         Relation::AtLeast,
         0.9,
         1,
         "",
         {builder.pair("stream-1m-kmem", "1 MB stream, kmem", via.stream(megabyte, Memory::Kmem),
                       bare_copy(with.cores.first, megabyte, asked_once(via, megabyte)))}});
    builder.row({"stream-1m-cma",
                 "1 MB stream, ordinary memory ÷ UCX tag_bw",
                 Relation::AtLeast,
                 1.0,
                 1.1,
                 "",
                 {builder.pair("stream-1m-cma", "1 MB stream, heap",
                               via.stream(megabyte, Memory::Heap), ucx.stream(megabyte))}});
    builder.row({"idle-vis",
                 "8 B latency with 256 idle VIs on the CQ ÷ with none",
                 Relation::AtMost,
                 1.2,
                 1.05,
                 "",
                 {builder.pair("idle-vis", "8 B latency", via.latency({.idle_vis = 256}),
                               via.latency({.idle_vis = 0}))}});
    builder.row({"one-core",
                 "both on one core: 8 B latency ÷ bare sched_yield ping-pong",
                 Relation::AtMost,
                 4,
                 2,
                 "",
                 {builder.pair("one-core", "8 B latency, one core", via.latency({.one_core = true}),
                               bare_yield(with.cores))}});
    builder.row({"vi-memory",
                 "memory per connected VI",
                 Relation::AtMost,
                 96,
                 32,
                 "",
                 {builder.pair("vi-memory", "memory per VI", via.memory_per_vi(), std::nullopt)}});
    // The spin before the sleep is a few tens of microseconds of the two seconds.
    builder.row(
        {"blocked-cpu",
         "CPU of a process blocked in VipCQWait",
         Relation::AtMost,
         0.05,
         std::nullopt,
         "0 (< 0.05 %)",
         {builder.pair("blocked-cpu", "CPU while blocked", via.blocked_cpu(), std::nullopt)}});
}

void add_rows_of_information(PlanBuilder& builder, const Contestants& with) {
    const ViaTool& via = with.via;
    const auto information = [&](const std::string& name, const std::string& title,
                                 const Probe& ours, const Probe& peer) {
        builder.row({name,
                     title,
                     Relation::AtMost,
                     std::nullopt,
                     std::nullopt,
                     "",
                     {builder.pair(name, title, ours, peer)}});
    };
    information("latency-8-two-lines", "8 B latency ÷ bare ping-pong with a line each way",
                via.latency({}), bare_two_lines(with.cores));
    information("latency-8-block", "8 B latency, blocking wait ÷ polling",
                via.latency({.block = true}), via.latency({}));
    information("latency-8-cq", "8 B latency through a completion queue ÷ VipRecvDone",
                via.latency({.idle_vis = 0}), via.latency({}));
    for (const Mpi& mpi : with.mpis) {
        const std::string suffix = fmt::format("-{}", lower_case(mpi.name()));
        information("latency-8" + suffix, "8 B latency ÷ " + mpi.name(), via.latency({}),
                    mpi.latency(8));
        information("latency-4k" + suffix, "4 KB latency ÷ " + mpi.name(),
                    via.latency({.bytes = 4 * kilobyte, .memory = Memory::Heap}),
                    mpi.latency(4 * kilobyte));
        information("rate-8" + suffix, "8 B message rate ÷ " + mpi.name(),
                    via.message_rate(8, Memory::Heap), mpi.message_rate(8));
        information("stream-4k" + suffix, "4 KB stream ÷ " + mpi.name(),
                    via.stream(4 * kilobyte, Memory::Heap), mpi.stream(4 * kilobyte));
        information("stream-1m" + suffix, "1 MB stream, ordinary memory ÷ " + mpi.name(),
                    via.stream(megabyte, Memory::Heap), mpi.stream(megabyte));
    }
}

}  // namespace

void add_shm_rows(PlanBuilder& builder, const Contestants& contestants) {
    add_rows_of_law(builder, contestants);
    add_rows_of_information(builder, contestants);
}

void add_shm_curves(Plan& plan, const Contestants& with, bool quick) {
    const std::vector<std::size_t> sizes =
        quick ? std::vector<std::size_t>{8, 128, 2048, 32768, 512 * kilobyte, 4 * megabyte}
              : powers_of_two(8, 4 * megabyte);
    for (const Memory memory : {Memory::Heap, Memory::Kmem}) {
        const std::string label =
            memory == Memory::Heap ? "via, ordinary memory" : "via, kmem memory";
        plan.curves.push_back(curve_of(label, sizes, [&](std::size_t bytes) {
            return with.via.latency({.bytes = bytes, .memory = memory});
        }));
        plan.curves.push_back(curve_of(
            label, sizes, [&](std::size_t bytes) { return with.via.stream(bytes, memory); }));
    }
    plan.curves.push_back(
        curve_of("UCX", sizes, [&](std::size_t bytes) { return with.ucx.latency(bytes); }));
    plan.curves.push_back(
        curve_of("UCX", sizes, [&](std::size_t bytes) { return with.ucx.stream(bytes); }));
    for (const Mpi& mpi : with.mpis) {
        plan.curves.push_back(mpi.latency_curve(sizes));
        plan.curves.push_back(mpi.stream_curve(sizes));
    }
    // The limit for latency does not depend on the size: it is the arrival of one line.
    Probe line = bare_one_line(with.cores);
    plan.curves.push_back({"bare cache line",
                           line.quantity,
                           {},
                           {[sizes, take = line.take]() -> base::Result<std::vector<Point>> {
                               auto value = take();
                               if (!value) return std::move(value).error();
                               std::vector<Point> points;
                               points.reserve(sizes.size());
                               for (const std::size_t bytes : sizes) {
                                   points.push_back({bytes, value.value()});
                               }
                               return points;
                           }}});
    plan.curves.push_back(curve_of("memcpy by one core", sizes, [&](std::size_t bytes) {
        return bare_copy(with.cores.first, bytes, asked_once(with.via, bytes));
    }));
}

}  // namespace via::bench
