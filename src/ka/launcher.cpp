// SPDX-License-Identifier: BSD-3-Clause
#include "ka/launcher.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/message_socket.hpp"
#include "base/settings.hpp"
#include "ka/agent_socket.hpp"
#include "ka/descriptors.hpp"

extern char** environ;

namespace via::ka {
namespace {

using base::Code;
using base::Deadline;
using base::Error;
using base::Nanoseconds;
using base::Result;
using base::UniqueFd;

#ifndef VIA_INSTALLED_AGENT
#define VIA_INSTALLED_AGENT "/usr/local/bin/viad"
#endif

/// How long somebody else's attempt to start an agent is trusted before one is started here too.
constexpr Nanoseconds starter_patience = 250'000'000;
/// An agent that was started and does not answer by then has failed or lost the race.
constexpr Nanoseconds start_again_after = 500'000'000;

bool runnable(const std::string& path) {
    struct stat status {};
    return !path.empty() && stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           access(path.c_str(), X_OK) == 0;
}

std::string beside_this_program() {
    std::array<char, 4096> path{};
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
    if (length <= 0) return {};
    const std::string_view program(path.data(), static_cast<std::size_t>(length));
    return std::string(program.substr(0, program.rfind('/') + 1)) + "viad";
}

/// In an installed tree that was moved as a whole: bin/viad of the tree that this library is in.
std::string beside_this_library() {
    Dl_info information{};
    if (dladdr(reinterpret_cast<void*>(&beside_this_library), &information) == 0 ||
        information.dli_fname == nullptr)
        return {};
    std::string folder = information.dli_fname;
    // lib/libvipl.so, or lib/<machine>/libvipl.so
    for (int up = 0; up < 3; ++up) {
        const std::size_t slash = folder.rfind('/');
        if (slash == std::string::npos || folder.front() != '/') return {};
        folder.resize(slash);
        if (std::string program = folder + "/bin/viad"; runnable(program)) return program;
    }
    return {};
}

std::string in_path() {
    const char* path = std::getenv("PATH");
    std::string_view rest = path == nullptr ? std::string_view{} : std::string_view(path);
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        const std::string candidate = std::string(rest.substr(0, end)) + "/viad";
        if (candidate.front() == '/' && runnable(candidate)) return candidate;
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return {};
}

// In the children only bare system calls are made: they share nothing with the program's threads,
// whose locks (also those of a sanitizer) may be held for ever there.

/// A process without a signal at its end and unseen by the program's own wait(2): the program must
/// not notice that it has a child. Runs no handlers of fork(2).
pid_t quiet_fork() noexcept {
    return static_cast<pid_t>(syscall(SYS_clone, 0, 0, 0, 0, 0));
}

/// In the grandchild: becomes the daemon, or says why not and ends.
[[noreturn]] void become_agent(const char* program, char* const* arguments,
                               char* const* environment, int report) noexcept {
    // The report goes to descriptor 3, all others are closed.
    if (report != 3) syscall(SYS_dup3, report, 3, O_CLOEXEC);
    const long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
    for (long fd = 0; fd < 3; ++fd)
        if (fd != null) syscall(SYS_dup3, null, fd, 0);
    syscall(SYS_close_range, 4U, ~0U, 0U);
    // The kernel's structure of a default action is all zero.
    const std::uint64_t default_action[8] = {};
    const std::uint64_t no_signals = 0;
    for (int number = 1; number <= 64; ++number)
        syscall(SYS_rt_sigaction, number, default_action, nullptr, sizeof no_signals);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, nullptr, sizeof no_signals);
    syscall(SYS_umask, 077);
    if (syscall(SYS_chdir, "/") == 0) syscall(SYS_execve, program, arguments, environment);
    const int failure = errno;
    syscall(SYS_write, 3, &failure, sizeof failure);
    for (;;)
        syscall(SYS_exit_group, 127);
}

Result<void> start_agent(const std::string& address) {
    auto program = agent_program();
    if (!program) return std::move(program).error();
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return name_descriptor_limit(base::system_error(errno, "cannot start the kernel agent"),
                                     "this process's");
    UniqueFd report(ends[0]);
    UniqueFd report_in(ends[1]);

    // Everything the children need is made now; they must not allocate.
    std::string name = program.value();
    std::string mode = "--on-demand";
    std::string option = "--socket";
    std::string place = address;
    std::array<char*, 5> arguments{name.data(), mode.data(), option.data(), place.data(), nullptr};
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // no handler of ours runs in the child
    const pid_t child = quiet_fork();
    if (child == 0) {
        syscall(SYS_setsid);
        const pid_t grandchild = quiet_fork();
        if (grandchild == 0) become_agent(name.c_str(), arguments.data(), environ, report_in.get());
        for (;;)
            syscall(SYS_exit_group, grandchild < 0 ? 1 : 0);
    }
    const int fork_failure = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (child < 0) return base::system_error(fork_failure, "cannot start the kernel agent");
    report_in.reset();
    int ended = 0;
    while (waitpid(child, &ended, static_cast<int>(__WCLONE)) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(ended) && WEXITSTATUS(ended) != 0)
        return Result<void>(Code::OutOfResources,
                            "cannot start the kernel agent: no process could be created "
                            "(RLIMIT_NPROC, pids.max)");
    int failure = 0;
    ssize_t got;
    do {
        got = read(report.get(), &failure, sizeof failure);
    } while (got < 0 && errno == EINTR);
    if (got == sizeof failure)
        return base::system_error(failure, "cannot start the kernel agent " + name);
    base::log(base::LogLevel::Info, "started the kernel agent " + name + " at " + address);
    return {};
}

/// Only one process at a time should start an agent. Held while it lives; nothing remains of it.
UniqueFd take_starter_lock(const std::string& address) {
    auto lock = base::listen_message_socket(address + "/starter");
    return lock ? std::move(lock).value() : UniqueFd();
}

/// Checks whose agent it is: nobody may pose as one.
Result<AgentConnection> connect_to(const std::string& address) {
    auto socket = base::connect_message_socket(address);
    if (!socket) return name_descriptor_limit(std::move(socket).error(), "this process's");
    auto credentials = base::peer_credentials(socket.value());
    if (!credentials) return std::move(credentials).error();
    const uid_t uid = credentials.value().uid;
    if (uid != 0 && uid != geteuid())
        return Result<AgentConnection>(Code::PermissionDenied,
                                       "user " + std::to_string(uid) + " listens at " + address +
                                           "; only an agent of root or of user " +
                                           std::to_string(geteuid()) +
                                           " is trusted. Set VIA_AGENT_SOCKET to another socket");
    return AgentConnection{std::move(socket).value(), address};
}

std::string chosen_address() {
    const std::string& given = base::Settings::get().text("VIA_AGENT_SOCKET");
    return given.empty() ? user_agent_socket(geteuid()) : given;
}

}  // namespace

Result<std::string> agent_program() {
    // A program with raised rights starts nothing that its caller can choose.
    if (getauxval(AT_SECURE) == 0) {
        const std::string& given = base::Settings::get().text("VIA_AGENT_PROGRAM");
        if (!given.empty()) {
            if (runnable(given)) return given;
            return Result<std::string>(
                Code::NotFound,
                "VIA_AGENT_PROGRAM names " + given + ", which is not a program that can be run");
        }
        if (std::string beside = beside_this_program(); runnable(beside)) return beside;
        if (std::string beside = beside_this_library(); !beside.empty()) return beside;
    }
    if (runnable(VIA_INSTALLED_AGENT)) return std::string(VIA_INSTALLED_AGENT);
    if (getauxval(AT_SECURE) == 0)
        if (std::string found = in_path(); !found.empty()) return found;
    return Result<std::string>(
        Code::NotFound,
        "the program viad was found neither beside this program or library nor as " +
            std::string(VIA_INSTALLED_AGENT) +
            " nor in PATH; install it (Debian's package is "
            "viaduct-utils) or set VIA_AGENT_PROGRAM to its path");
}

Result<AgentConnection> find_agent() {
    if (base::Settings::get().text("VIA_AGENT_SOCKET").empty()) {
        auto system = connect_to(system_agent_socket());
        if (system) {
            // Only root's is the system's; this user's own may be anywhere.
            auto credentials = base::peer_credentials(system.value().socket);
            if (credentials && credentials.value().uid == 0) return system;
        } else if (system.error().code == Code::Timeout ||
                   system.error().code == Code::OutOfResources) {
            return system;
        }
    }
    return connect_to(chosen_address());
}

Result<AgentConnection> find_or_start_agent(Deadline deadline) {
    const bool may_start = base::Settings::get().flag("VIA_AGENT_START");
    UniqueFd starter;
    Deadline wait_for_starter = Deadline::never();
    Deadline start_again = Deadline::at(0);
    bool started = false;
    Nanoseconds pause = 500'000;
    for (;;) {
        auto connection = find_agent();
        if (connection) return connection;
        Error error = std::move(connection).error();
        if (error.code != Code::NotFound && error.code != Code::Timeout) return error;
        if (error.code == Code::NotFound && !may_start) {
            error.sentence +=
                "; no kernel agent runs there and VIA_AGENT_START forbids starting one";
            return error;
        }
        if (deadline.expired()) {
            if (started) error.sentence += "; the agent that was started does not answer";
            error.code = Code::Timeout;
            return error;
        }
        const Nanoseconds now = base::monotonic_now();
        if (error.code == Code::NotFound && start_again.expired(now)) {
            const std::string address = chosen_address();
            const bool lockable = address.front() == '@';  // a path has the agents' own lock file
            if (lockable && !starter.valid()) starter = take_starter_lock(address);
            if (wait_for_starter.is_never())
                wait_for_starter = Deadline::at(now + starter_patience);
            if (!lockable || starter.valid() || wait_for_starter.expired(now)) {
                if (auto start = start_agent(address); !start) return std::move(start).error();
                started = true;
                start_again = Deadline::at(now + start_again_after);
            }
        }
        const Nanoseconds sleep = std::min(pause, deadline.remaining(now));
        const timespec span{sleep / 1'000'000'000, sleep % 1'000'000'000};
        nanosleep(&span, nullptr);
        pause = std::min<Nanoseconds>(pause * 2, 10'000'000);
    }
}

}  // namespace via::ka
