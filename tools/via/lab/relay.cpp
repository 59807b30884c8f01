// SPDX-License-Identifier: BSD-3-Clause
#include "relay.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "frame_damage.hpp"
#include "host_space.hpp"
#include "names.hpp"

namespace via::lab {
namespace {

constexpr std::size_t largest_frame = 65536 + 64;
constexpr std::size_t most_waiting_bytes = std::size_t{64} << 20;
constexpr base::Nanoseconds look_interval = 1'000'000'000;

/// Ethernet frames in and out of the kernel.
int open_tap(const std::string& name) noexcept {
    const int fd = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -1;
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
    if (::ioctl(fd, TUNSETIFF, &request) == 0) return fd;
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
}

class Relay {
  public:
    Relay(const LinkState& state, base::UniqueFd from, base::UniqueFd to)
        : state_(state), from_(std::move(from)), to_(std::move(to)), random_(state.seed) {}

    /// Until `alive` says no.
    void run(const std::function<bool()>& alive) {
        base::Nanoseconds look = base::machine_now() + look_interval;
        for (;;) {
            base::Nanoseconds now = base::machine_now();
            if (now >= look) {
                if (!alive()) return;
                look = now + look_interval;
            }
            const base::Nanoseconds until = waiting_.empty() ? look : waiting_.top().due;
            const base::Nanoseconds rest =
                std::clamp<base::Nanoseconds>(until - now, 0, look_interval);
            const timespec limit{rest / 1'000'000'000, rest % 1'000'000'000};
            pollfd watch[2] = {{from_.get(), POLLIN, 0}, {to_.get(), POLLIN, 0}};
            ::ppoll(watch, 2, &limit, nullptr);
            if ((watch[0].revents & (POLLERR | POLLHUP)) != 0) return;
            if (watch[0].revents != 0) take_frames();
            // The kernel may say something there by itself; it is not for us.
            if (watch[1].revents != 0) throw_away();
            put_due_frames();
        }
    }

  private:
    using Frame = std::vector<std::uint8_t>;
    struct Waiting {
        base::Nanoseconds due;
        std::uint64_t number;  ///< equal times keep their order
        std::size_t slot;      ///< in frames_
        friend bool operator>(const Waiting& one, const Waiting& other) {
            return std::pair(one.due, one.number) > std::pair(other.due, other.number);
        }
    };

    void take_frames() {
        // A bound, so that what is due does not wait for a stream to end.
        for (int count = 0; count < 64; ++count) {
            const ssize_t bytes = ::read(from_.get(), buffer_.data(), buffer_.size());
            if (bytes <= 0) return;
            treat({buffer_.data(), static_cast<std::size_t>(bytes)}, base::machine_now());
        }
    }

    void treat(std::span<std::uint8_t> frame, base::Nanoseconds now) {
        // One throw for both: it falls within the share of packets that come here at all.
        const auto dice = static_cast<PartsPerMillion>(random_() % state_.relayed_share());
        base::Nanoseconds due = now + state_.delay;
        if (dice < state_.corrupt)
            damage_frame(frame, random_);
        else if (dice < state_.corrupt + state_.reorder)
            due += reorder_hold;
        if (due == now) {
            put(frame);
            return;
        }
        if (waiting_bytes_ + frame.size() > most_waiting_bytes) return;  // a full queue drops
        std::size_t slot = frames_.size();
        if (free_.empty()) {
            frames_.emplace_back();
        } else {
            slot = free_.back();
            free_.pop_back();
        }
        frames_[slot].assign(frame.begin(), frame.end());
        waiting_bytes_ += frame.size();
        waiting_.push({due, number_++, slot});
    }

    void put_due_frames() {
        const base::Nanoseconds now = base::machine_now();
        while (!waiting_.empty() && waiting_.top().due <= now) {
            const std::size_t slot = waiting_.top().slot;
            waiting_.pop();
            put(frames_[slot]);
            waiting_bytes_ -= frames_[slot].size();
            free_.push_back(slot);
        }
    }

    void put(std::span<const std::uint8_t> frame) {
        // A device that is down refuses: then the packet is lost, as it would be on the link.
        static_cast<void>(!::write(to_.get(), frame.data(), frame.size()));
    }

    void throw_away() {
        while (::read(to_.get(), buffer_.data(), buffer_.size()) > 0) {
        }
    }

    LinkState state_;
    base::UniqueFd from_;
    base::UniqueFd to_;
    std::mt19937_64 random_;
    std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(largest_frame);
    std::vector<Frame> frames_;
    std::vector<std::size_t> free_;
    std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
    std::size_t waiting_bytes_ = 0;
    std::uint64_t number_ = 0;
};

/// What the starter hears: 0 or the error number, and at which step.
struct Word {
    int error = 0;
    int step = 0;
};
constexpr const char* steps[] = {"entering the namespaces of the link",
                                 "opening a TAP device by /dev/net/tun"};

/// The devices of a link, made in both namespaces; the process stays in the first.
Word open_devices(const RelayPlan& plan, const SpaceDoor& from_door, const SpaceDoor& to_door,
                  base::UniqueFd& from, base::UniqueFd& to) {
    if (const int error = to_door.enter_network(); error != 0) return {error, 0};
    to.reset(open_tap(plan.to_device));
    if (!to.valid()) return {errno, 1};
    if (const int error = from_door.enter_network(); error != 0) return {error, 0};
    from.reset(open_tap(plan.from_device));
    if (!from.valid()) return {errno, 1};
    return {};
}

/// Nothing of the starter shall be held open: not its terminal, not its pipes, not its sockets. The
/// two descriptors are kept, under numbers of their own.
void keep_only(base::UniqueFd& from, base::UniqueFd& to) {
    constexpr int first = 3;
    const int high_from = ::fcntl(from.release(), F_DUPFD_CLOEXEC, 10);
    const int high_to = ::fcntl(to.release(), F_DUPFD_CLOEXEC, 10);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(nothing, fd);
    from.reset(::dup2(high_from, first));
    to.reset(::dup2(high_to, first + 1));
    ::syscall(SYS_close_range, static_cast<unsigned>(first + 2), ~0U, 0U);
}

/// Who asks for less at a time is let in sooner, also before programs that spin, but takes no more
/// than its share: a real-time relay could keep a flooded receiver from its processor. Kernels
/// before 6.12 know no such turns; there a delay is less exact.
void ask_for_short_turns() {
    struct {
        std::uint32_t size;
        std::uint32_t policy;
        std::uint64_t flags;
        std::int32_t nice;
        std::uint32_t priority;
        std::uint64_t turn;
        std::uint64_t deadline;
        std::uint64_t period;
    } wanted{sizeof wanted, SCHED_OTHER, 0, 0, 0, 100'000, 0, 0};
    static_assert(sizeof wanted == 48, "sched_attr of the kernel, first version");
    static_cast<void>(::syscall(SYS_sched_setattr, 0, &wanted, 0U));
}

[[noreturn]] void be_relay(const RelayPlan& plan, const SpaceDoor& from_door,
                           const SpaceDoor& to_door, int pipe) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE})
        ::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::prctl(PR_SET_NAME, plan.process_name.c_str());
    ::prctl(PR_SET_TIMERSLACK, 1UL);
    ask_for_short_turns();
    static_cast<void>(!::chdir("/"));
    base::UniqueFd from;
    base::UniqueFd to;
    const Word word = open_devices(plan, from_door, to_door, from, to);
    static_cast<void>(!::write(pipe, &word, sizeof word));
    if (word.error != 0) ::_exit(1);
    struct stat mine {};
    ::stat("/proc/self/ns/net", &mine);
    const std::string path = space_path(plan.from_space);
    keep_only(from, to);
    Relay relay(plan.state, std::move(from), std::move(to));
    relay.run([&] {
        struct stat named {};
        return ::stat(path.c_str(), &named) == 0 && named.st_ino == mine.st_ino;
    });
    ::_exit(0);
}

}  // namespace

base::Result<void> start_relay(const RelayPlan& plan) {
    auto from_door = SpaceDoor::open(plan.from_space);
    if (!from_door) return std::move(from_door).error();
    auto to_door = SpaceDoor::open(plan.to_space);
    if (!to_door) return std::move(to_door).error();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return base::system_error(errno, "making a pipe");
    base::UniqueFd reading(ends[0]);
    base::UniqueFd writing(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) return base::system_error(errno, "starting the relay of a link");
    if (pid == 0) {
        // Nobody's child: the starter may end before it and need not collect it.
        ::setsid();
        if (::fork() == 0) be_relay(plan, from_door.value(), to_door.value(), writing.get());
        ::_exit(0);
    }
    writing.reset();
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    Word word;
    pollfd watch{reading.get(), POLLIN, 0};
    constexpr int patience_milliseconds = 5000;
    if (::poll(&watch, 1, patience_milliseconds) <= 0 ||
        ::read(reading.get(), &word, sizeof word) != static_cast<ssize_t>(sizeof word))
        return {base::Code::System, fmt::format("the relay for {} in {} did not start",
                                                plan.from_device, plan.from_space)};
    if (word.error != 0)
        return base::system_error(
            word.error, fmt::format("the relay for {} in {}: {}", plan.from_device, plan.from_space,
                                    steps[word.step]));
    return {};
}

}  // namespace via::lab
