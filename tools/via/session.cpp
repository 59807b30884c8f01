// SPDX-License-Identifier: BSD-3-Clause
#include "session.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "control_channel.hpp"
#include "control_message.hpp"
#include "cpu_time.hpp"
#include "endpoint.hpp"
#include "histogram.hpp"
#include "pingpong.hpp"
#include "statistics.hpp"
#include "vipl_objects.hpp"
#include "window.hpp"

namespace via::tool {
namespace {

using base::Deadline;
using base::Result;

constexpr unsigned protocol_version = 1;

/// What lives as long as the session: the VIs that are only there and the queue they share with
/// the measured one.
class Surroundings {
  public:
    Result<void> build(const Nic& nic, const SessionTerms& terms) {
        if (!terms.completion_queue) return {};
        // Each VI can complete all that its queues hold.
        const std::size_t wanted = terms.idle_vis + 2 * most_outstanding(nic);
        auto queue = CompletionQueue::create(
            nic, std::min<std::size_t>(wanted, nic.attributes().MaxCQEntries));
        if (!queue) return std::move(queue).error();
        queue_ = std::move(queue).value();
        if (terms.idle_vis == 0) return {};
        auto memory = Memory::allocate(nic, MemoryKind::Heap,
                                       terms.idle_vis * sizeof(VIP_DESCRIPTOR), false, false);
        if (!memory) return std::move(memory).error();
        memory_ = std::move(memory).value();
        return {};
    }

    /// One further VI with a receive posted, not yet connected.
    Result<Vi*> add_idle_vi(const Nic& nic, const SessionTerms& terms) {
        auto vi = Vi::create(nic, vi_attributes(terms, 64), nullptr, queue_.handle());
        if (!vi) return std::move(vi).error();
        auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory_.data()) + idle_.size();
        *descriptor = VIP_DESCRIPTOR{};
        if (const auto code = VipPostRecv(vi.value().handle(), descriptor, memory_.handle());
            code != VIP_SUCCESS)
            return vipl_error(code, "posting a receive on an idle VI");
        idle_.push_back(std::move(vi).value());
        return &idle_.back();
    }

    [[nodiscard]] VIP_CQ_HANDLE queue() const { return queue_.handle(); }

    /// Forgets what the VI of the last test left there: its flushed receives completed too.
    void clear_queue() {
        if (queue_.handle() == nullptr) return;
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        while (VipCQDone(queue_.handle(), &vi, &is_receive) == VIP_SUCCESS) {
        }
    }

  private:
    static std::size_t most_outstanding(const Nic& nic) {
        return std::min<std::size_t>(nic.attributes().MaxDescriptorsPerQueue, 4096);
    }
    // In this order, because VIs go before what they use.
    Memory memory_;
    CompletionQueue queue_;
    std::vector<Vi> idle_;
};

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
    return (value + step - 1) / step * step;
}

class Client {
  public:
    Client(const SessionPlan& plan, SideReporter& reporter) : plan_(plan), reporter_(reporter) {}

    Result<void> run() {
        reporter_.stage("opening the device");
        auto nic = Nic::open(plan_.device);
        if (!nic) return std::move(nic).error();
        nic_ = std::move(nic).value();
        auto local = nic_->own_address(plan_.discriminator);
        if (!local) return std::move(local).error();
        local_ = local.value();
        auto remote = plan_.host ? nic_->resolve(*plan_.host, plan_.discriminator) : local;
        if (!remote) return std::move(remote).error();
        remote_ = remote.value();

        reporter_.stage("connecting");
        auto channel = reach_server();
        if (!channel) return std::move(channel).error();
        channel_ = std::move(channel).value();
        nlohmann::json hello = to_json(plan_.terms);
        hello["kind"] = "hello";
        hello["version"] = protocol_version;
        if (auto greeted = ask(hello, "welcome"); !greeted) return std::move(greeted).error();
        if (auto built = surroundings_.build(*nic_, plan_.terms); !built) return built;
        reporter_.stage("connecting idle VIs");
        for (std::uint32_t i = 0; i < plan_.terms.idle_vis; ++i) {
            auto vi = surroundings_.add_idle_vi(*nic_, plan_.terms);
            if (!vi) return std::move(vi).error();
            if (auto connected = vi.value()->connect(local_, remote_, deadline()); !connected)
                return connected;
            reporter_.alive();
        }
        for (const TestPlan& test : plan_.tests) {
            if (auto measured = measure(test); !measured) return measured;
            surroundings_.clear_queue();
        }
        reporter_.stage("saying goodbye");
        return channel_.send({{"kind", "bye"}}, deadline());
    }

  private:
    [[nodiscard]] Deadline deadline() const { return Deadline::after(plan_.patience); }

    /// A server that is being started on another host has no kernel agent yet.
    Result<ControlChannel> reach_server() {
        const Deadline last = Deadline::after(plan_.retry);
        for (;;) {
            auto channel = ControlChannel::connect(*nic_, local_, remote_, deadline());
            if (channel || channel.error().code != base::Code::NotReachable) return channel;
            if (last.expired()) {
                base::Error error = std::move(channel).error();
                if (plan_.retry != 0)
                    error.sentence += fmt::format("; it was tried again for {:g} s (--retry)",
                                                  static_cast<double>(plan_.retry) / 1e9);
                return error;
            }
            reporter_.alive();
            const timespec pause{0, 100'000'000};
            nanosleep(&pause, nullptr);
        }
    }

    Result<nlohmann::json> ask(const nlohmann::json& question, std::string_view answer) {
        if (auto sent = channel_.send(question, deadline()); !sent) return std::move(sent).error();
        return channel_.expect(answer, deadline());
    }

    Result<void> measure(const TestPlan& test) {
        reporter_.stage("preparing a test");
        nlohmann::json announcement = to_json(test.terms);
        announcement["kind"] = "test";
        auto endpoint = Endpoint::prepare(*nic_, Role::Client, plan_.terms, test.terms,
                                          surroundings_.queue(), plan_.patience);
        if (!endpoint) return std::move(endpoint).error();
        announcement["memory_at"] = endpoint.value().describe_memory();
        auto answer = ask(announcement, "prepared");
        if (!answer) return std::move(answer).error();
        if (auto aimed = endpoint.value().aim_at(answer.value()["memory_at"]); !aimed) return aimed;
        if (auto connected = endpoint.value().vi().connect(local_, remote_, deadline()); !connected)
            return connected;
        next_number_ = 0;
        auto result = test.terms.program == Program::Pingpong
                          ? measure_pingpong(test, endpoint.value())
                          : measure_window(test, endpoint.value());
        if (!result) return std::move(result).error();
        auto ended = ask({{"kind", "end"}}, "ended");
        if (!ended) return std::move(ended).error();
        describe(test, result.value());
        add_cpu_time(test, number_member(ended.value(), "cpu_ns"), result.value());
        reporter_.report({{"result", std::move(result).value()}});
        return {};
    }

    void describe(const TestPlan& test, nlohmann::json& result) const {
        result["program"] = to_text(test.terms.program);
        result["device"] = plan_.device;
        if (plan_.simulated)
            result["simulated"] = {
                {"machine", plan_.simulated->machine},
                {"firmware",
                 plan_.simulated->firmware.empty() ? "myvia" : plan_.simulated->firmware}};
        result["bytes"] = test.terms.bytes;
        result["memory"] = to_text(test.terms.memory);
        result["wait"] = to_text(plan_.terms.wait);
        result["operation"] = to_text(plan_.terms.operation);
        result["reliability"] = to_text(plan_.terms.reliability);
        result["completion_queue"] = plan_.terms.completion_queue;
        result["idle_vis"] = plan_.terms.idle_vis;
        result["checked"] = plan_.terms.check;
        result["fresh"] = plan_.terms.fresh;
        result["buffers"] = test.terms.buffers;
        result["repetitions"] = test.repetitions;
    }

    /// The next run is the first whose processor time counts.
    void count_cpu_from_here() { server_cpu_before_.reset(); }

    /// From the first timed run to the end of the last. Simulated hosts are one process.
    void add_cpu_time(const TestPlan& test, std::uint64_t server_cpu,
                      nlohmann::json& result) const {
        if (plan_.simulated || !server_cpu_before_ || server_cpu <= *server_cpu_before_) return;
        const double client = static_cast<double>(client_cpu_after_ - client_cpu_before_) / 1e9;
        const double server = static_cast<double>(server_cpu - *server_cpu_before_) / 1e9;
        result["client_cpu_s"] = client;
        result["server_cpu_s"] = server;
        if (test.terms.program != Program::Window || test.terms.bytes == 0) return;
        const double gigabytes = static_cast<double>(test.terms.bytes) *
                                 result["iterations"].get<double>() * test.repetitions / 1e9;
        result["cpu_s_per_gb"] = (client + server) / gigabytes;
    }

    /// Lets both sides run `count` round trips or messages, and gives the nanoseconds it took.
    Result<base::Nanoseconds> go(const TestPlan& test, Endpoint& endpoint, std::uint64_t count,
                                 std::uint32_t batch, std::span<std::uint64_t> samples) {
        auto ready = ask({{"kind", "run"}, {"first", next_number_}, {"count", count}}, "ready");
        if (!ready) return std::move(ready).error();
        if (!server_cpu_before_) {
            server_cpu_before_ = number_member(ready.value(), "cpu_ns");
            client_cpu_before_ = process_cpu_time();
        }
        const base::Nanoseconds before = program_now();
        bool good = false;
        if (test.terms.program == Program::Pingpong)
            good = run_pingpong_client(endpoint, plan_.terms, {next_number_, count, batch}, samples,
                                       reporter_.counter());
        else
            good = run_window_client(endpoint, plan_.terms, count, reporter_.counter());
        const base::Nanoseconds spent = program_now() - before;
        client_cpu_after_ = process_cpu_time();
        if (!good) return failure(endpoint);
        next_number_ += count;
        return spent;
    }

    /// The other side may know more: ask it before the connection is blamed.
    base::Error failure(Endpoint& endpoint) {
        base::Error own = link_error(endpoint.link(), *nic_);
        (void)channel_.send({{"kind", "error"}, {"sentence", own.sentence}},
                            Deadline::after_milliseconds(200));
        if (const auto word = channel_.receive(Deadline::after_milliseconds(500)); !word)
            if (word.error().code == base::Code::System)
                own.sentence += "; " + word.error().sentence;
        return own;
    }

    /// A first short run, also to warm caches; then how many fit into the time there is.
    Result<std::uint64_t> choose_count(const TestPlan& test, Endpoint& endpoint,
                                       std::uint64_t trial, std::uint64_t most) {
        reporter_.stage("warming up");
        reporter_.expect(0);
        if (const std::uint64_t warmup = test.warmup.value_or(trial); warmup > 0) {
            auto spent = go(test, endpoint, warmup, 1, {});
            if (!spent) return std::move(spent).error();
        }
        if (test.iterations) return *test.iterations;
        auto spent = go(test, endpoint, trial, 1, {});
        if (!spent) return std::move(spent).error();
        const double each =
            std::max(static_cast<double>(spent.value()), 1.0) / static_cast<double>(trial);
        const double fitting = test.seconds * 1e9 / static_cast<double>(test.repetitions) / each;
        return static_cast<std::uint64_t>(
            std::clamp(fitting, static_cast<double>(trial), static_cast<double>(most)));
    }

    Result<nlohmann::json> measure_pingpong(const TestPlan& test, Endpoint& endpoint) {
        constexpr std::uint64_t most_round_trips = 2'000'000;
        const std::uint64_t trial = test.terms.bytes <= 65536 ? 256 : 16;
        auto chosen = choose_count(test, endpoint, trial, most_round_trips);
        if (!chosen) return std::move(chosen).error();
        const std::uint32_t batch = static_cast<std::uint32_t>(std::min<std::uint64_t>(
            test.batch.value_or(default_batch(test.terms.bytes, plan_.terms.wait)),
            chosen.value()));
        const std::uint64_t count = round_up(chosen.value(), batch);
        // Each run starts with some round trips that nobody times: the sides have just slept.
        const std::uint64_t lead = std::min<std::uint64_t>(round_up(64, batch), count);

        reporter_.stage("measuring round trips");
        count_cpu_from_here();
        std::vector<std::uint64_t> samples((lead + count) / batch);
        std::vector<double> all;
        all.reserve(count / batch * test.repetitions);
        std::vector<double> medians;
        const double hops = plan_.terms.operation == Operation::RdmaRead ? 1 : 2;
        for (std::uint32_t repetition = 0; repetition < test.repetitions; ++repetition) {
            reporter_.expect(lead + count);
            auto spent = go(test, endpoint, lead + count, batch, samples);
            if (!spent) return std::move(spent).error();
            const std::size_t start = all.size();
            for (std::size_t i = lead / batch; i < samples.size(); ++i)
                all.push_back(static_cast<double>(samples[i]) / batch / hops / 1000);
            medians.push_back(
                median({all.begin() + static_cast<std::ptrdiff_t>(start), all.end()}));
        }
        const Summary summary = summarize(all);
        nlohmann::json result{{"one_way_us", summary.p50},
                              {"mean_us", summary.mean},
                              {"min_us", summary.minimum},
                              {"max_us", summary.maximum},
                              {"percentiles",
                               {{"p50", summary.p50},
                                {"p90", summary.p90},
                                {"p99", summary.p99},
                                {"p99.9", summary.p999}}},
                              {"repetition_medians_us", medians},
                              {"iterations", count},
                              {"batch", batch},
                              {"samples", summary.count}};
        if (plan_.histogram) {
            auto bins = nlohmann::json::array();
            for (const HistogramBin& bin : make_histogram(all))
                bins.push_back({{"from_us", bin.from}, {"to_us", bin.to}, {"count", bin.count}});
            result["histogram"] = bins;
        }
        return result;
    }

    Result<nlohmann::json> measure_window(const TestPlan& test, Endpoint& endpoint) {
        // Nothing is kept of a single message: --seconds alone says how many.
        constexpr std::uint64_t most_messages = std::uint64_t{1} << 40;
        const std::uint64_t trial = std::max<std::uint64_t>(test.terms.window * 4, 16);
        auto chosen = choose_count(test, endpoint, trial, most_messages);
        if (!chosen) return std::move(chosen).error();
        const std::uint64_t count = chosen.value();
        reporter_.stage("measuring a stream");
        count_cpu_from_here();
        std::vector<double> rates;
        for (std::uint32_t repetition = 0; repetition < test.repetitions; ++repetition) {
            reporter_.expect(count);
            auto spent = go(test, endpoint, count, 1, {});
            if (!spent) return std::move(spent).error();
            rates.push_back(static_cast<double>(count) * 1e9 /
                            static_cast<double>(std::max<base::Nanoseconds>(spent.value(), 1)));
        }
        const double megabytes = static_cast<double>(test.terms.bytes) / 1e6;
        std::vector<double> sorted = rates;
        const Summary summary = summarize(sorted);
        std::vector<double> bandwidths;
        for (const double rate : rates)
            bandwidths.push_back(rate * megabytes);
        return nlohmann::json{{"mb_per_s", summary.p50 * megabytes},
                              {"messages_per_s", summary.p50},
                              {"min_mb_per_s", summary.minimum * megabytes},
                              {"max_mb_per_s", summary.maximum * megabytes},
                              {"repetition_mb_per_s", bandwidths},
                              {"window", test.terms.window},
                              {"iterations", count}};
    }

    const SessionPlan& plan_;
    SideReporter& reporter_;
    // In this order: the NIC outlives all that was made with it.
    std::unique_ptr<Nic> nic_;
    Address local_;
    Address remote_;
    Surroundings surroundings_;
    ControlChannel channel_;
    std::uint64_t next_number_ = 0;
    std::optional<std::uint64_t> server_cpu_before_;  ///< the runs that count
    base::Nanoseconds client_cpu_before_ = 0;
    base::Nanoseconds client_cpu_after_ = 0;
};

class Server {
  public:
    Server(const SessionPlan& plan, SideReporter& reporter) : plan_(plan), reporter_(reporter) {}

    Result<void> run() {
        reporter_.stage("opening the device");
        auto nic = Nic::open(plan_.device);
        if (!nic) return std::move(nic).error();
        nic_ = std::move(nic).value();
        auto local = nic_->own_address(plan_.discriminator);
        if (!local) return std::move(local).error();
        local_ = local.value();
        reporter_.stage("waiting for a client");
        auto channel = ControlChannel::accept(*nic_, local_, deadline());
        if (!channel) return std::move(channel).error();
        channel_ = std::move(channel).value();
        auto outcome = serve();
        if (!outcome)
            (void)channel_.send({{"kind", "error"}, {"sentence", outcome.error().sentence}},
                                Deadline::after_milliseconds(200));
        return outcome;
    }

  private:
    [[nodiscard]] Deadline deadline() const { return Deadline::after(plan_.patience); }

    Result<void> serve() {
        auto hello = channel_.expect("hello", deadline());
        if (!hello) return std::move(hello).error();
        if (hello.value().value("version", nlohmann::json()) != protocol_version)
            return {base::Code::ProtocolViolation,
                    "the other side is another version of this program"};
        auto terms = session_terms_from(hello.value());
        if (!terms) return std::move(terms).error();
        terms_ = terms.value();
        if (auto built = surroundings_.build(*nic_, terms_); !built) return built;
        if (auto sent = channel_.send({{"kind", "welcome"}}, deadline()); !sent) return sent;
        reporter_.stage("accepting idle VIs");
        for (std::uint32_t i = 0; i < terms_.idle_vis; ++i) {
            auto vi = surroundings_.add_idle_vi(*nic_, terms_);
            if (!vi) return std::move(vi).error();
            if (auto accepted = vi.value()->accept(*nic_, local_, deadline()); !accepted)
                return accepted;
            reporter_.alive();
        }
        for (;;) {
            reporter_.stage("waiting for the client's next test");
            auto message = channel_.receive(deadline());
            if (!message) return std::move(message).error();
            if (message.value()["kind"] == "bye") return {};
            if (message.value()["kind"] != "test")
                return {base::Code::ProtocolViolation, "the client says something unexpected"};
            if (auto served = serve_test(message.value()); !served) return served;
            surroundings_.clear_queue();
        }
    }

    Result<void> serve_test(const nlohmann::json& announcement) {
        auto terms = test_terms_from(announcement);
        if (!terms) return std::move(terms).error();
        auto endpoint = Endpoint::prepare(*nic_, Role::Server, terms_, terms.value(),
                                          surroundings_.queue(), plan_.patience);
        if (!endpoint) return std::move(endpoint).error();
        if (auto aimed = endpoint.value().aim_at(announcement.value("memory_at", nlohmann::json()));
            !aimed)
            return aimed;
        if (auto sent = channel_.send(
                {{"kind", "prepared"}, {"memory_at", endpoint.value().describe_memory()}},
                deadline());
            !sent)
            return sent;
        reporter_.stage("accepting the measured VI");
        if (auto accepted = endpoint.value().vi().accept(*nic_, local_, deadline()); !accepted)
            return accepted;
        for (;;) {
            reporter_.stage("waiting for the client's next run");
            auto message = channel_.receive(deadline());
            if (!message) return std::move(message).error();
            if (message.value()["kind"] == "end")
                return channel_.send({{"kind", "ended"}, {"cpu_ns", process_cpu_time()}},
                                     deadline());
            if (message.value()["kind"] != "run")
                return {base::Code::ProtocolViolation, "the client says something unexpected"};
            if (auto served = serve_run(message.value(), endpoint.value()); !served) return served;
        }
    }

    Result<void> serve_run(const nlohmann::json& message, Endpoint& endpoint) {
        const std::uint64_t first = number_member(message, "first");
        const std::uint64_t count = number_member(message, "count");
        reporter_.stage("serving a run");
        const auto serve = [&] {
            return endpoint.terms().program == Program::Pingpong
                       ? run_pingpong_server(endpoint, terms_, {first, count, 1},
                                             reporter_.counter())
                       : run_window_server(endpoint, terms_, count, reporter_.counter());
        };
        // What reads shall find must lie there before they start; everything else starts after.
        const bool passive = terms_.operation == Operation::RdmaRead;
        bool good = !passive || serve();
        if (auto sent =
                channel_.send({{"kind", "ready"}, {"cpu_ns", process_cpu_time()}}, deadline());
            !sent)
            return sent;
        if (!passive) good = serve();
        if (!good) return link_error(endpoint.link(), *nic_);
        return {};
    }

    const SessionPlan& plan_;
    SideReporter& reporter_;
    std::unique_ptr<Nic> nic_;
    Address local_;
    SessionTerms terms_;
    Surroundings surroundings_;
    ControlChannel channel_;
};

}  // namespace

std::uint32_t default_batch(std::uint64_t bytes, WaitKind wait) {
    if (wait == WaitKind::Block || bytes > 65536) return 1;
    return bytes <= 4096 ? 16 : 4;
}

Result<void> run_client(const SessionPlan& plan, SideReporter& reporter) {
    Client client(plan, reporter);
    return client.run();
}

Result<void> run_server(const SessionPlan& plan, SideReporter& reporter) {
    Server server(plan, reporter);
    return server.run();
}

}  // namespace via::tool
