// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/peer_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace via::test {

namespace {

void await_fd(int fd, short events) {
    pollfd entry{fd, events, 0};
    // Longer than any wait inside the other process, so that its own message comes first.
    const auto limit = static_cast<int>(3 * patience_ms);
    int ready = 0;
    do {
        ready = poll(&entry, 1, limit);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) throw std::runtime_error("the other process is late");
    if (ready < 0) throw std::runtime_error("poll failed");
}

std::map<std::string, PeerRole>& roles() {
    static std::map<std::string, PeerRole> all;
    return all;
}

std::pair<int, int> make_sockets() {
    int fds[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        throw std::runtime_error("no socket pair for the other process");
    }
    return {fds[0], fds[1]};
}

}  // namespace

void Link::write(const void* data, std::size_t bytes) const {
    const auto* next = static_cast<const char*>(data);
    while (bytes > 0) {
        await_fd(fd_, POLLOUT);
        const ssize_t done = send(fd_, next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (done <= 0) throw std::runtime_error("the other process is gone");
        next += done;
        bytes -= static_cast<std::size_t>(done);
    }
}

void Link::read(void* data, std::size_t bytes) const {
    auto* next = static_cast<char*>(data);
    while (bytes > 0) {
        await_fd(fd_, POLLIN);
        const ssize_t done = recv(fd_, next, bytes, MSG_DONTWAIT);
        if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (done <= 0) throw std::runtime_error("the other process is gone");
        next += done;
        bytes -= static_cast<std::size_t>(done);
    }
}

void Link::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

PeerRegistration::PeerRegistration(const char* name, PeerRole role) {
    if (!roles().emplace(name, role).second) std::abort();
}

PeerProcess::PeerProcess(const char* role, const Environment& environment, int stderr_fd)
    : PeerProcess(role, environment, stderr_fd, make_sockets()) {}

PeerProcess::PeerProcess(const char* role, const Environment& environment, int stderr_fd,
                         std::pair<int, int> sockets)
    : link(sockets.first) {
    Environment changes = environment;
#if defined(__SANITIZE_ADDRESS__)
    // Looking for leaks takes seconds at the end of a process on some machines. The test program
    // itself, with the same library in it, is looked through once.
    const char* options = std::getenv("ASAN_OPTIONS");
    changes["ASAN_OPTIONS"] = std::string(options != nullptr ? options : "") + ":detect_leaks=0";
#endif
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        if (!changes.contains(std::string(text.substr(0, text.find('='))))) {
            variables.emplace_back(text);
        }
    }
    for (const auto& [name, value] : changes)
        variables.push_back(name + "=" + value);
    std::vector<char*> environment_pointers;
    for (auto& variable : variables)
        environment_pointers.push_back(variable.data());
    environment_pointers.push_back(nullptr);

    constexpr int link_fd_in_child = 100;
    std::string program = "/proc/self/exe";
    std::string flag = "--peer";
    std::string role_text = role;
    std::string fd_text = std::to_string(link_fd_in_child);
    char* arguments[] = {program.data(), flag.data(), role_text.data(), fd_text.data(), nullptr};

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, sockets.second, link_fd_in_child);
    if (stderr_fd >= 0) posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO);
    const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments,
                                  environment_pointers.data());
    posix_spawn_file_actions_destroy(&actions);
    ::close(sockets.second);
    if (error != 0) {
        reaped_ = true;
        link.close();
        throw std::runtime_error("the second process does not start");
    }
}

PeerProcess::~PeerProcess() {
    link.close();
    if (!reaped_) {
        kill();
        static_cast<void>(wait());
    }
}

void PeerProcess::kill() {
    if (!reaped_) ::kill(pid_, SIGKILL);
}

bool PeerProcess::has_ended() {
    siginfo_t info{};
    return reaped_ ||
           (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == pid_);
}

int PeerProcess::wait() {
    if (reaped_) return code_;
    int status = 0;
    bool late = false;
    const auto deadline = Clock::now() + 3 * patience;
    for (;;) {
        const pid_t ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_ || (ended < 0 && errno != EINTR)) break;
        if (!late && Clock::now() > deadline) {
            late = true;
            ::kill(pid_, SIGKILL);
        }
        usleep(500);
    }
    reaped_ = true;
    if (late) {
        code_ = -1000;
    } else {
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return code_;
}

int run_peer(int argc, char** argv) {
    if (argc < 4 || std::string_view(argv[1]) != "--peer") return -1;
    // The test may die; its helper must not outlive it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto role = roles().find(argv[2]);
    if (role == roles().end()) return 99;
    const int fd = std::atoi(argv[3]);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    Link link(fd);
    try {
        role->second(link);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[2], error.what());
        return 98;
    }
    return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

ServerEnd::ServerEnd(const PairOptions& options) : end(nic, options, vi_options_of(options)) {}

void ServerEnd::accept(Link& link) {
    Address local(nic, unique_discriminator());
    link.put(local);
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    VIP_RETURN code =
        VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes, &connection);
    if (code != VIP_SUCCESS) fail_with("VipConnectWait", code);
    code = VipConnectAccept(connection, end.vi);
    if (code != VIP_SUCCESS) fail_with("VipConnectAccept", code);
}

ClientEnd::ClientEnd(const PairOptions& options) : end(nic, options, vi_options_of(options)) {}

void ClientEnd::request(Link& link) {
    auto remote = link.get<Address>();
    Address local(nic, unique_discriminator());
    const VIP_RETURN code = request_until_matched(end.vi, local, remote);
    if (code != VIP_SUCCESS) fail_with("VipConnectRequest", code);
}

}  // namespace via::test
