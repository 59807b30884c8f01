// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "base/fd.hpp"
#include "cpu_choice.hpp"

namespace via::tool {
namespace {

constexpr base::Nanoseconds one_second = 1'000'000'000;
constexpr base::Nanoseconds look_interval = one_second / 5;
constexpr base::Nanoseconds quiet_start = 2 * one_second;  // short runs show no progress line
constexpr base::Nanoseconds line_interval = 10 * one_second;
constexpr base::Nanoseconds grace = 3 * one_second;  // for the other sides after one has failed
constexpr std::size_t longest_report = std::size_t{64} << 20;

volatile sig_atomic_t received_signal = 0;
void remember_signal(int number) {
    received_signal = number;
}

int signal_guards = 0;

struct ProgressPage {
    explicit ProgressPage(std::size_t count) : bytes(count * sizeof(SideProgress)) {
        void* address =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (address == MAP_FAILED) return;
        sides = static_cast<SideProgress*>(address);
        for (std::size_t i = 0; i < count; ++i)
            new (&sides[i]) SideProgress;
    }
    ~ProgressPage() {
        if (sides != nullptr) munmap(sides, bytes);
    }
    ProgressPage(const ProgressPage&) = delete;
    ProgressPage& operator=(const ProgressPage&) = delete;

    std::size_t bytes;
    SideProgress* sides = nullptr;
};

struct Child {
    const Side* side = nullptr;
    SideProgress* progress = nullptr;
    pid_t pid = -1;  ///< -1: gone
    base::UniqueFd pipe;
    std::string unread;
    std::uint64_t last_done = 0;
    base::Nanoseconds last_alive = 0;
    bool failed = false;
    std::string sentence;  ///< why
};

[[noreturn]] void run_child(const Side& side, SideProgress& progress, int pipe, pid_t parent) {
    // If the supervisor is killed its children go with it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
        signal(number, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    SideReporter reporter(progress, pipe);
    std::string sentence;
    try {
        auto outcome = pin_to(side.cpu);
        if (outcome) outcome = side.run(reporter);
        if (outcome) std::exit(0);
        sentence = outcome.error().sentence;
    } catch (const std::exception& exception) {
        sentence = exception.what();
    }
    reporter.report({{"error", sentence}});
    std::exit(1);
}

class Supervisor {
  public:
    Supervisor(const std::vector<Side>& sides, const SupervisorOptions& options)
        : options_(options), page_(sides.size()), on_terminal_(isatty(STDERR_FILENO) == 1) {
        for (const Side& side : sides) {
            Child& child = children_.emplace_back();
            child.side = &side;
        }
    }
    ~Supervisor() {
        kill_all();
        for (Child& child : children_)
            reap(child, true);
        clear_line();
    }
    Supervisor(const Supervisor&) = delete;
    Supervisor& operator=(const Supervisor&) = delete;

    base::Result<void> run() {
        if (page_.sides == nullptr)
            return base::system_error(errno, "mapping memory for the progress of the sides");
        fflush(nullptr);  // or the children would print it again
        const pid_t parent = getpid();
        for (std::size_t i = 0; i < children_.size(); ++i)
            if (auto started = start(children_[i], page_.sides[i], parent); !started)
                return started;
        started_ = base::monotonic_now();
        for (Child& child : children_)
            child.last_alive = started_;
        while (anyone_alive()) {
            wait_for_news();
            for (Child& child : children_) {
                read_reports(child);
                reap(child, false);
            }
            if (received_signal != 0) return interrupted();
            if (auto hung = look_for_hung_side(); !hung) return hung;
            if (someone_failed() && failed_since_ == 0) failed_since_ = base::monotonic_now();
            if (failed_since_ != 0 && base::monotonic_now() - failed_since_ > grace) break;
            show_progress();
        }
        return outcome();
    }

  private:
    base::Result<void> start(Child& child, SideProgress& progress, pid_t parent) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return base::system_error(errno, "creating a pipe");
        base::UniqueFd reading(ends[0]);
        base::UniqueFd writing(ends[1]);
        const pid_t pid = fork();
        if (pid < 0) return base::system_error(errno, "starting the " + child.side->name);
        if (pid == 0) run_child(*child.side, progress, writing.get(), parent);
        fcntl(reading.get(), F_SETFL, O_NONBLOCK);
        child.progress = &progress;
        child.pid = pid;
        child.pipe = std::move(reading);
        return {};
    }

    [[nodiscard]] bool anyone_alive() const {
        return std::any_of(children_.begin(), children_.end(),
                           [](const Child& child) { return child.pid > 0; });
    }
    [[nodiscard]] bool someone_failed() const {
        return std::any_of(children_.begin(), children_.end(),
                           [](const Child& child) { return child.failed; });
    }

    /// Sleeps until a pipe says something (its end is news too) or it is time to look.
    void wait_for_news() {
        std::vector<pollfd> waits;
        for (const Child& child : children_)
            if (child.pipe.valid()) waits.push_back({child.pipe.get(), POLLIN, 0});
        // A pipe that is closed before its process has ended leaves only the clock to wait for.
        const auto limit = waits.size() == children_.size() ? look_interval : look_interval / 20;
        ::poll(waits.data(), waits.size(), static_cast<int>(limit / 1'000'000));
    }

    void read_reports(Child& child) {
        char buffer[65536];
        while (child.pipe.valid()) {
            const ssize_t count = ::read(child.pipe.get(), buffer, sizeof buffer);
            if (count < 0) {
                if (errno == EINTR) continue;
                if (errno != EAGAIN) child.pipe.reset();
                break;
            }
            if (count == 0) {
                child.pipe.reset();
                break;
            }
            child.unread.append(buffer, static_cast<std::size_t>(count));
            child.last_alive = base::monotonic_now();
            if (child.unread.size() > longest_report) child.pipe.reset();
        }
        for (std::size_t end; (end = child.unread.find('\n')) != std::string::npos;) {
            const auto value = nlohmann::json::parse(child.unread.substr(0, end), nullptr, false);
            child.unread.erase(0, end + 1);
            if (value.is_object() && value.contains("error") && value["error"].is_string()) {
                child.failed = true;
                child.sentence = value["error"].get<std::string>();
            } else if (!value.is_discarded() && options_.on_report) {
                options_.on_report(value);
            }
        }
    }

    void reap(Child& child, bool wait) {
        if (child.pid <= 0) return;
        int status = 0;
        pid_t result = 0;
        do {
            result = waitpid(child.pid, &status, wait ? 0 : WNOHANG);
        } while (result < 0 && errno == EINTR);
        if (result == 0) return;
        read_reports(child);  // what it said last
        child.pid = -1;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !child.failed) return;
        child.failed = true;
        if (!child.sentence.empty()) return;
        if (WIFSIGNALED(status))
            child.sentence = fmt::format("it was ended by signal {} ({})", WTERMSIG(status),
                                         strsignal(WTERMSIG(status)));
        else
            child.sentence =
                fmt::format("it ended with status {} and no word", WEXITSTATUS(status));
    }

    void kill_all() {
        for (const Child& child : children_)
            if (child.pid > 0) ::kill(child.pid, SIGKILL);
    }

    base::Result<void> interrupted() {
        return {base::Code::System,
                fmt::format("broken off by signal {} ({})", static_cast<int>(received_signal),
                            strsignal(received_signal))};
    }

    base::Result<void> look_for_hung_side() {
        const base::Nanoseconds now = base::monotonic_now();
        bool quiet = true;
        for (Child& child : children_) {
            if (child.pid <= 0) continue;
            const std::uint64_t done = child.progress->done.load(std::memory_order_relaxed);
            if (done != child.last_done) {
                child.last_done = done;
                child.last_alive = now;
            }
            // One side may well be silent while the other measures; all of them may not.
            if (now - child.last_alive < options_.quiet_limit) quiet = false;
        }
        if (!quiet || !anyone_alive()) return {};
        std::string sentence = fmt::format("nothing happened for {:.1f} seconds and it was ended;",
                                           static_cast<double>(options_.quiet_limit) / 1e9);
        for (const Child& child : children_)
            sentence += fmt::format(" the {} {} \"{}\";", child.side->name,
                                    child.pid > 0 ? "was at" : "had ended at",
                                    child.progress->stage.load(std::memory_order_relaxed));
        sentence.back() = '.';
        return {base::Code::Timeout, sentence};
    }

    void show_progress() {
        if (!options_.show_progress) return;
        const base::Nanoseconds now = base::monotonic_now();
        if (now - started_ < quiet_start) return;
        if (!on_terminal_ && now - last_line_ < line_interval) return;
        last_line_ = now;
        // The side that counts something says more than the one that serves it.
        const auto shown = std::max_element(
            children_.begin(), children_.end(), [](const Child& a, const Child& b) {
                return a.progress->total.load(std::memory_order_relaxed) <
                       b.progress->total.load(std::memory_order_relaxed);
            });
        const std::uint64_t total = shown->progress->total.load(std::memory_order_relaxed);
        const std::uint64_t done =
            std::min(total, shown->progress->done.load(std::memory_order_relaxed));
        std::string line = fmt::format("{:.0f} s: {}", static_cast<double>(now - started_) / 1e9,
                                       shown->progress->stage.load(std::memory_order_relaxed));
        if (total > 0)
            line +=
                fmt::format(", {:.0f} % of {}",
                            100.0 * static_cast<double>(done) / static_cast<double>(total), total);
        if (on_terminal_) {
            fmt::print(stderr, "\r\x1b[K{}", line);
            line_shown_ = true;
        } else {
            fmt::print(stderr, "{}\n", line);
        }
        fflush(stderr);
    }

    void clear_line() {
        if (!line_shown_) return;
        fmt::print(stderr, "\r\x1b[K");
        fflush(stderr);
        line_shown_ = false;
    }

    base::Result<void> outcome() {
        // Whoever failed without being ended from here tells the cause.
        std::string sentence;
        for (const Child& child : children_) {
            if (!child.failed) continue;
            if (!sentence.empty()) sentence += "; ";
            sentence += fmt::format("the {} failed: {}", child.side->name, child.sentence);
        }
        if (sentence.empty()) return {};
        return {base::Code::System, sentence};
    }

    const SupervisorOptions& options_;
    SignalGuard signals_;
    ProgressPage page_;
    std::vector<Child> children_;
    base::Nanoseconds started_ = 0;
    base::Nanoseconds failed_since_ = 0;
    base::Nanoseconds last_line_ = 0;
    bool on_terminal_;
    bool line_shown_ = false;
};

}  // namespace

SignalGuard::SignalGuard() {
    if (signal_guards++ == 0) received_signal = 0;
    struct sigaction action {};
    action.sa_handler = remember_signal;
    for (std::size_t i = 0; i < signals.size(); ++i)
        sigaction(signals[i], &action, &before_[i]);
}

SignalGuard::~SignalGuard() {
    --signal_guards;
    for (std::size_t i = 0; i < signals.size(); ++i)
        sigaction(signals[i], &before_[i], nullptr);
}

int SignalGuard::signal_received() noexcept {
    return received_signal;
}

void SideReporter::report(const nlohmann::json& value) {
    // Text from outside may hold broken UTF-8; it must not stop the report.
    const std::string line =
        value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    std::string_view rest = line;
    while (!rest.empty()) {
        const ssize_t count = ::write(pipe_, rest.data(), rest.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return;  // the supervisor is gone, and soon so are we
        rest.remove_prefix(static_cast<std::size_t>(count));
    }
}

base::Result<void> run_sides(const std::vector<Side>& sides, const SupervisorOptions& options) {
    Supervisor supervisor(sides, options);
    return supervisor.run();
}

}  // namespace via::tool
