// SPDX-License-Identifier: BSD-3-Clause
#include "two_processes.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

namespace via::bench {

base::Result<Companion> Companion::start(
    const std::function<base::Result<void>(Companion&)>& child_part) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return base::system_error(errno, "make a socket between two processes");
    }
    base::UniqueFd parent_end(ends[0]);
    base::UniqueFd child_end(ends[1]);
    std::fflush(nullptr);  // or the child would print it again
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) return base::system_error(errno, "start the second process");
    if (pid == 0) {
        parent_end.reset();
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(3);
        int code = 0;
        {
            Companion companion(parent, std::move(child_end), false);
            if (auto done = child_part(companion); !done) {
                std::fprintf(stderr, "second process: %s\n", done.error().sentence.c_str());
                code = 1;
            }
        }
        std::fflush(nullptr);
        ::_exit(code);
    }
    return Companion(pid, std::move(parent_end), true);
}

Companion::Companion(Companion&& other) noexcept
    : pid_(other.pid_),
      socket_(std::move(other.socket_)),
      owns_(std::exchange(other.owns_, false)) {}

Companion::~Companion() {
    if (!owns_) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

base::Result<void> Companion::meet(base::Deadline deadline) {
    const char word = 'm';
    if (::send(socket_.get(), &word, 1, MSG_NOSIGNAL) != 1) {
        return base::system_error(errno, "tell the other process");
    }
    pollfd watch{socket_.get(), POLLIN, 0};
    char answer = 0;
    const int ready = ::poll(&watch, 1, deadline.poll_milliseconds());
    if (ready <= 0) return {base::Code::Timeout, "the other process did not come in time"};
    if (::recv(socket_.get(), &answer, 1, 0) != 1) {
        return {base::Code::ConnectionLost, "the other process has ended"};
    }
    return {};
}

base::Result<void> Companion::join(base::Deadline deadline) {
    // Its end of the socket closes with it.
    pollfd watch{socket_.get(), POLLIN, 0};
    if (::poll(&watch, 1, deadline.poll_milliseconds()) <= 0) {
        return {base::Code::Timeout, "the second process does not end"};
    }
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    owns_ = false;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return {base::Code::System, "the second process failed"};
    }
    return {};
}

}  // namespace via::bench
