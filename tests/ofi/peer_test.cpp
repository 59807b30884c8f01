// SPDX-License-Identifier: BSD-3-Clause
// Two processes, and what is heard when one of them dies.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

/// The program ofi_peer.
class Peer {
  public:
    Peer() {
        int pipe_ends[2];
        if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
        const char* program = std::getenv("OFI_TEST_PEER");
        if (program == nullptr) throw std::runtime_error("OFI_TEST_PEER is not set");
        char* arguments[] = {const_cast<char*>(program), nullptr};
        const int spawned = posix_spawn(&pid_, program, &actions, nullptr, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        close(pipe_ends[1]);
        std::FILE* said = fdopen(pipe_ends[0], "r");
        unsigned host = 0;
        unsigned port = 0;
        const int read = spawned == 0 ? std::fscanf(said, "%u %u", &host, &port) : 0;
        std::fclose(said);
        if (read != 2) throw std::runtime_error("the peer did not come up");
        name_.sin_family = AF_INET;
        name_.sin_addr.s_addr = htonl(host);
        name_.sin_port = htons(static_cast<std::uint16_t>(port));
    }
    ~Peer() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    void kill() {
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    /// Its own end.
    [[nodiscard]] int wait_for_end() {
        int status = -1;
        waitpid(pid_, &status, 0);
        pid_ = -1;
        return status;
    }
    [[nodiscard]] const sockaddr_in& name() const { return name_; }

  private:
    pid_t pid_ = -1;
    sockaddr_in name_{};
};

class TwoProcesses : public testing::Test {
  protected:
    TwoProcesses() {
        node.insert(peer.name());
        const sockaddr_in own = node.name();
        until_taken(
            node, nullptr, [&] { return fi_tinject(node.ep.get(), &own, sizeof own, 0, 1); },
            "fi_tinject");
    }
    Peer peer;
    Node node;
};

}  // namespace

TEST_F(TwoProcesses, MessagesOfAllSizesComeBack) {
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{10'000},
          std::size_t{300'000}, std::size_t{1'000'000}}) {
        const std::vector<char> text = pattern(bytes, 8);
        std::vector<char> got(bytes, 0);
        check(fi_trecv(node.ep.get(), got.data(), bytes, nullptr, 0, 9, 0, &got), "fi_trecv");
        until_taken(
            node, nullptr,
            [&] {
                return fi_tsenddata(node.ep.get(), text.data(), bytes, nullptr, 41, 0, 9, nullptr);
            },
            "fi_tsenddata");
        fi_cq_tagged_entry entry = node.next_good();
        const fi_cq_tagged_entry other = node.next_good();
        if (entry.op_context != &got) entry = other;
        EXPECT_EQ(entry.len, bytes);
        EXPECT_EQ(entry.data, 42U);
        EXPECT_EQ(got, text);
    }
    until_taken(
        node, nullptr, [&] { return fi_tinject(node.ep.get(), "", 0, 0, 0); }, "fi_tinject");
    EXPECT_EQ(peer.wait_for_end(), 0);
}

TEST_F(TwoProcesses, OneSidedWhileThePeerSleeps) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{700'000}}) {
        const std::vector<char> text = pattern(bytes, 5);
        until_taken(
            node, nullptr,
            [&] { return fi_write(node.ep.get(), text.data(), bytes, nullptr, 0, 64, 1, nullptr); },
            "fi_write");
        (void)node.next_good();
        std::vector<char> got(bytes, 0);
        until_taken(
            node, nullptr,
            [&] { return fi_read(node.ep.get(), got.data(), bytes, nullptr, 0, 64, 1, nullptr); },
            "fi_read");
        (void)node.next_good();
        EXPECT_EQ(got, text);
    }
    const std::uint64_t add = 5;
    std::uint64_t old = 0;
    until_taken(
        node, nullptr,
        [&] {
            return fi_fetch_atomic(node.ep.get(), &add, 1, nullptr, &old, nullptr, 0, 0, 1,
                                   FI_UINT64, FI_SUM, nullptr);
        },
        "fi_fetch_atomic");
    (void)node.next_good();
    EXPECT_EQ(old, 0x7777777777777777ULL) << "eight times 'w'";
}

/// Many times there and back, both asleep in between: were one of them not woken but looked now and
/// then by itself, the deadline would not be met.
TEST_F(TwoProcesses, SleepersAreWoken) {
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    int fd = -1;
    check(fi_control(&node.cq->fid, FI_GETWAIT, &fd), "FI_GETWAIT");
    for (const bool by_descriptor : {false, true})
        for (int round = 0; round < 200; ++round) {
            ASSERT_FALSE(deadline.expired()) << "round " << round;
            char got[8] = {};
            check(fi_trecv(node.ep.get(), got, sizeof got, nullptr, 0, 9, 0, got), "fi_trecv");
            until_taken(
                node, nullptr, [&] { return fi_tinject(node.ep.get(), "ping", 5, 0, 9); },
                "fi_tinject");
            fi_cq_tagged_entry entry{};
            if (!by_descriptor) {
                ASSERT_EQ(fi_cq_sread(node.cq.get(), &entry, 1, nullptr, 20'000), 1);
            } else {
                fid* waits = &node.cq->fid;
                while (fi_cq_read(node.cq.get(), &entry, 1) != 1) {
                    ASSERT_FALSE(deadline.expired()) << "round " << round;
                    if (fi_trywait(node.fabric.get(), &waits, 1) != 0) continue;
                    pollfd one{fd, POLLIN, 0};
                    ASSERT_EQ(::poll(&one, 1, 20'000), 1);
                }
            }
            ASSERT_EQ(entry.op_context, got);
        }
}

TEST_F(TwoProcesses, WhoWaitsForADeadPeerIsTold) {
    char got[8];
    // The connection stands both ways.
    check(fi_trecv(node.ep.get(), got, sizeof got, nullptr, 0, 9, 0, nullptr), "fi_trecv");
    until_taken(
        node, nullptr, [&] { return fi_tinject(node.ep.get(), "ping", 5, 0, 9); }, "fi_tinject");
    (void)node.next_good();
    check(fi_trecv(node.ep.get(), got, sizeof got, nullptr, 0, 10, 0, got), "fi_trecv");
    peer.kill();
    const Event event = node.next();
    ASSERT_TRUE(event.is_error);
    EXPECT_EQ(event.error.err, FI_ECONNRESET);
    EXPECT_EQ(event.error.op_context, got);
    EXPECT_NE(
        std::string(fi_cq_strerror(node.cq.get(), event.error.prov_errno, nullptr, nullptr, 0))
            .find("peer"),
        std::string::npos);
}

TEST_F(TwoProcesses, AMessageToADeadPeerFails) {
    char got[8];
    check(fi_trecv(node.ep.get(), got, sizeof got, nullptr, 0, 9, 0, nullptr), "fi_trecv");
    until_taken(
        node, nullptr, [&] { return fi_tinject(node.ep.get(), "ping", 5, 0, 9); }, "fi_tinject");
    (void)node.next_good();
    peer.kill();
    const std::vector<char> text = pattern(500'000);
    ssize_t taken = 0;
    while ((taken = fi_tsend(node.ep.get(), text.data(), text.size(), nullptr, 0, 9, &got)) ==
           -FI_EAGAIN)
        node.progress();
    if (taken == 0) {
        const Event event = node.next();
        ASSERT_TRUE(event.is_error);
        EXPECT_EQ(event.error.err, FI_ECONNRESET);
        EXPECT_EQ(event.error.op_context, got);
    }
}
