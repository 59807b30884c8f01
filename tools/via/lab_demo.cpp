// SPDX-License-Identifier: BSD-3-Clause
#include "lab_demo.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.hpp"
#include "chart.hpp"
#include "command.hpp"
#include "cpu_choice.hpp"
#include "lab/lab.hpp"
#include "lab/names.hpp"
#include "measurement.hpp"
#include "process_watch.hpp"
#include "stream_record.hpp"
#include "supervisor.hpp"

namespace via::tool {
namespace {

using base::Result;

constexpr unsigned link_count = 2;
constexpr unsigned cut_link = 1;
constexpr std::uint64_t message_bytes = 65536;
/// The receiver confirms half a window at a time, so this is how finely the stream is seen.
constexpr std::uint32_t open_window = 16;
constexpr double look_seconds = 0.001;
constexpr double link_look_seconds = 0.02;
constexpr double interval_seconds = 0.1;
constexpr double start_patience = 20;
constexpr double still_patience = 15;

/// What the sides see of each other.
struct SharedPage {
    SideProgress stream;                        ///< the client's
    std::atomic<base::Nanoseconds> started{0};  ///< the first confirmation; 0: not yet
    static_assert(std::atomic<base::Nanoseconds>::is_always_lock_free);
};

class SharedMemory {
  public:
    SharedMemory()
        : address_(mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (valid()) new (address_) SharedPage;
    }
    ~SharedMemory() {
        if (valid()) munmap(address_, sizeof(SharedPage));
    }
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    [[nodiscard]] bool valid() const { return address_ != MAP_FAILED; }
    [[nodiscard]] SharedPage& page() { return *static_cast<SharedPage*>(address_); }

  private:
    void* address_;
};

double seconds_since(base::Nanoseconds moment) {
    return static_cast<double>(base::monotonic_now() - moment) / 1e9;
}

/// As many messages as take that long while the links do what they should.
std::uint64_t messages_for(const LabDemoOptions& options) {
    constexpr double header_share = 0.95;  // of a link's rate, what is left for the data
    const double link_seconds =
        2 * options.cut + (options.back - options.cut) + 2 * (options.seconds - options.back);
    return static_cast<std::uint64_t>(link_seconds * options.rate / 8 * header_share /
                                      static_cast<double>(message_bytes)) +
           1;
}

std::vector<double> sent_by_links() {
    std::vector<double> bytes;
    for (unsigned link = 0; link < link_count; ++link) {
        double value = 0;
        std::ifstream(
            fmt::format("/sys/class/net/{}/statistics/tx_bytes", lab::device_name(link))) >>
            value;
        bytes.push_back(value);
    }
    return bytes;
}

nlohmann::json as_json(const Stall& stall) {
    return {{"at_s", stall.begin}, {"ms", stall.seconds * 1e3}};
}

/// The side that looks on, in the sender's host.
class Observer {
  public:
    Observer(SharedPage& page, std::uint64_t count, SideReporter& reporter)
        : page_(page), count_(count), reporter_(reporter) {}

    Result<void> run() {
        reporter_.stage("waiting for the stream");
        if (!wait_for_start())
            return {base::Code::Timeout, fmt::format("the stream did not start within {:g} s; the "
                                                     "sender was at \"{}\"",
                                                     start_patience, page_.stream.stage.load())};
        reporter_.stage("watching the stream");
        if (auto watched = watch(); !watched) return watched;
        const double end = samples_.back().seconds;
        nlohmann::json record{{"seconds", end},
                              {"bytes", samples_.back().bytes},
                              {"interval_s", interval_seconds},
                              {"mb_per_s", rates(samples_, end)},
                              {"links", nlohmann::json::array()},
                              {"longest_stall", as_json(longest_stall(samples_))}};
        for (const std::vector<GrowthSample>& link : by_link_)
            record["links"].push_back(rates(link, end));
        reporter_.report({{"record", record}});
        return {};
    }

  private:
    [[nodiscard]] std::uint64_t done() const {
        return page_.stream.total.load(std::memory_order_relaxed) == count_
                   ? page_.stream.done.load(std::memory_order_relaxed)
                   : 0;
    }

    bool wait_for_start() {
        const base::Nanoseconds begin = base::monotonic_now();
        while (seconds_since(begin) < start_patience) {
            // The first counts are signs of life, not messages.
            if (done() >= open_window / 2) {
                page_.started.store(base::monotonic_now(), std::memory_order_release);
                return true;
            }
            sleep_for(look_seconds);
        }
        return false;
    }

    Result<void> watch() {
        const base::Nanoseconds started = page_.started.load(std::memory_order_relaxed);
        double next_link_look = 0;
        const auto first = static_cast<double>(done());
        const std::vector<double> links_first = sent_by_links();
        samples_.push_back({0, 0});
        for (;;) {
            const auto now_done = done();
            const double now = seconds_since(started);
            const double bytes = (static_cast<double>(now_done) - first) * message_bytes;
            if (bytes > samples_.back().bytes) samples_.push_back({now, bytes});
            if (now >= next_link_look) {
                next_link_look = now + link_look_seconds;
                const std::vector<double> sent = sent_by_links();
                for (unsigned link = 0; link < link_count; ++link)
                    by_link_[link].push_back({now, sent[link] - links_first[link]});
                reporter_.alive();
            }
            if (now_done >= count_) return {};
            if (now - samples_.back().seconds > still_patience)
                return {base::Code::Timeout,
                        fmt::format("nothing arrived for {:g} s", still_patience)};
            sleep_for(look_seconds);
        }
    }

    static std::vector<double> rates(const std::vector<GrowthSample>& samples, double end) {
        std::vector<double> megabytes = rates_over_time(samples, interval_seconds, end);
        for (double& value : megabytes)
            value /= 1e6;
        return megabytes;
    }

    SharedPage& page_;
    std::uint64_t count_;
    SideReporter& reporter_;
    std::vector<GrowthSample> samples_;
    std::array<std::vector<GrowthSample>, link_count> by_link_;
};

/// The side that cuts the link and brings it back.
Result<void> conduct(SharedPage& page, const lab::Lab& lab, const LabDemoOptions& options,
                     SideReporter& reporter) {
    const lab::LabLink link = lab.link(cut_link);
    const auto wait_until = [&](double moment) {
        for (;;) {
            const base::Nanoseconds started = page.started.load(std::memory_order_acquire);
            if (started != 0 && seconds_since(started) >= moment) return started;
            sleep_for(look_seconds);
        }
    };
    const auto act = [&](double moment, const char* name, bool cut) -> Result<void> {
        const base::Nanoseconds started = wait_until(moment);
        reporter.report({{"event", {{"at_s", seconds_since(started)}, {"name", name}}}});
        if (options.silent) return link.silent(cut);
        return cut ? link.down() : link.up();
    };
    if (auto done = act(options.cut, "cut", true); !done) return done;
    return act(options.back, "back", false);
}

SessionPlan stream_plan(const SessionPlan& base_plan, std::uint64_t count) {
    SessionPlan plan = base_plan;
    plan.host = "b";
    for (TestPlan& test : plan.tests) {
        test.iterations = count;
        test.warmup = 0;
        test.repetitions = 1;
    }
    return plan;
}

double mean(const std::vector<double>& values, double from, double to) {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double begin = static_cast<double>(i) * interval_seconds;
        if (begin < from || begin + interval_seconds > to) continue;
        sum += values[i];
        ++count;
    }
    return count == 0 ? 0 : sum / static_cast<double>(count);
}

Result<void> show(const LabDemoOptions& options, const nlohmann::json& record,
                  const nlohmann::json& events) {
    const auto whole = record["mb_per_s"].get<std::vector<double>>();
    // The last interval is hardly ever a whole one.
    const auto without_end = [](std::vector<double> values) {
        if (values.size() > 1) values.pop_back();
        return values;
    };
    std::vector<TimeCurve> curves{{"what the receiver confirmed", without_end(whole)}};
    for (std::size_t link = 0; link < record["links"].size(); ++link)
        curves.push_back({fmt::format("sent by link {}", link),
                          without_end(record["links"][link].get<std::vector<double>>())});
    std::vector<TimeMark> marks;
    for (const nlohmann::json& event : events)
        marks.push_back({event["at_s"].get<double>(),
                         fmt::format("link {} {}", cut_link, event["name"].get<std::string>())});
    TimePlotOptions plot;
    plot.y_title = "MB/s";
    plot.width = interval_seconds;
    plot.colour = isatty(STDOUT_FILENO) == 1;
    const double end = record["seconds"].get<double>();
    fmt::print("{}\n", draw_over_time(curves, marks, plot));
    // What comes right after a change is left out: it is neither the one nor the other.
    const auto settled = [](double from, double to) {
        return from + std::min(0.5, (to - from) / 3);
    };
    fmt::print("Both links: {:.0f} MB/s; one: {:.0f} MB/s; both again: {:.0f} MB/s.\n",
               mean(whole, 0, options.cut),
               mean(whole, settled(options.cut, options.back), options.back),
               mean(whole, settled(options.back, end), end));
    fmt::print(
        "Longest stall: {:.1f} ms, {:.2f} s after the start (confirmations come every {} KB).\n",
        record["longest_stall"]["ms"].get<double>(), record["longest_stall"]["at_s"].get<double>(),
        message_bytes * open_window / 2 / 1024);
    if (options.chart.empty()) return {};
    auto drawn = draw_script(
        time_chart_script(curves, marks, plot, "A stream over two links", options.chart),
        options.chart);
    if (!drawn) return drawn;
    fmt::print("Drawn: {}.svg and .png\n", options.chart);
    return {};
}

}  // namespace

Result<void> run_lab_demo(const LabDemoOptions& options) {
    if (!(options.cut > 0 && options.cut < options.back && options.back < options.seconds))
        return {base::Code::InvalidArgument,
                "the link must be cut after the start, come back later, and before the end: "
                "0 < --cut < --back < --seconds"};
    const SignalGuard guard;  // the lab is taken down whatever comes
    lab::LabOptions wanted;
    wanted.name = {};
    wanted.links = link_count;
    auto made = lab::Lab::up(wanted);
    if (!made) return std::move(made).error();
    const lab::Lab& lab = made.value();
    for (unsigned link = 0; link < link_count; ++link)
        if (auto limited = lab.link(link).rate(static_cast<std::uint64_t>(options.rate)); !limited)
            return limited;

    MeasurementOptions measurement;
    measurement.device = "net0";
    measurement.bytes = std::to_string(message_bytes);
    measurement.window = open_window;
    measurement.wait = "block";  // both hosts and the onlookers share the cores
    auto base_plan = make_plan(measurement, Program::Window);
    if (!base_plan) return std::move(base_plan).error();
    const std::uint64_t count = messages_for(options);
    const SessionPlan plan = stream_plan(base_plan.value(), count);
    const CpuPair cpus = choose_cpus(usable_processors());
    SharedMemory memory;
    if (!memory.valid()) return base::system_error(errno, "mapping memory for the sides");
    SharedPage& page = memory.page();

    nlohmann::json record;
    nlohmann::json events = nlohmann::json::array();
    SupervisorOptions watch;
    watch.quiet_limit = plan.patience;
    watch.on_report = [&](const nlohmann::json& report) {
        if (report.contains("record")) record = report["record"];
        if (report.contains("event")) events.push_back(report["event"]);
    };
    if (!options.json)
        fmt::print(
            "Two hosts with two links of {:g} Gbit/s each; {:g} MB go from one to the "
            "other.\n\n",
            options.rate / 1e9, static_cast<double>(count * message_bytes) / 1e6);
    auto ran = run_in_lab(
        plan, cpus, lab,
        {{"observer",
          {},
          [&](SideReporter& reporter) -> Result<void> {
              if (auto entered = lab.enter("a"); !entered) return entered;
              return Observer(page, count, reporter).run();
          }},
         {"conductor",
          {},
          [&](SideReporter& reporter) { return conduct(page, lab, options, reporter); }}},
        watch, [&](SideReporter&) {
            // Its progress is for the observer; it has nothing to tell.
            SideReporter seen_by_all(page.stream, -1);
            return run_client(plan, seen_by_all);
        });
    if (!ran) return ran;
    if (record.is_null()) return {base::Code::System, "the observer said nothing"};
    if (options.json) {
        record["events"] = events;
        print_json(record);
        return {};
    }
    return show(options, record, events);
}

}  // namespace via::tool
