// SPDX-License-Identifier: BSD-3-Clause
#include "base/message_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "base/memory_file.hpp"

using namespace via::base;

namespace {

std::string fresh_address() {
    static std::atomic<int> count{0};
    return "@viaduct/test/" + std::to_string(getpid()) + "/" + std::to_string(count++);
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

struct Pair {
    UniqueFd listener;
    UniqueFd client;
    UniqueFd server;
};

Pair connected(const std::string& address = fresh_address()) {
    Pair pair;
    auto listener = listen_message_socket(address);
    EXPECT_TRUE(listener) << listener.error().sentence;
    pair.listener = std::move(listener).value();
    auto client = connect_message_socket(address);
    EXPECT_TRUE(client) << client.error().sentence;
    pair.client = std::move(client).value();
    pair.server.reset(accept4(pair.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_TRUE(pair.server.valid());
    return pair;
}

std::string received_text(const UniqueFd& socket) {
    std::array<std::byte, 256> buffer;
    const auto message = receive_message(socket, buffer);
    if (!message) return "error: " + message.error().sentence;
    return {reinterpret_cast<const char*>(buffer.data()), message.value().bytes};
}

TEST(MessageSocket, KeepsTheBordersOfMessages) {
    const Pair pair = connected();
    ASSERT_TRUE(
        send_message(pair.client, bytes_of("first"), {}, Deadline::after_milliseconds(1000)));
    ASSERT_TRUE(
        send_message(pair.client, bytes_of("second"), {}, Deadline::after_milliseconds(1000)));
    EXPECT_EQ(received_text(pair.server), "first");
    EXPECT_EQ(received_text(pair.server), "second");
}

TEST(MessageSocket, ReceivingNothingIsATimeoutAndDoesNotBlock) {
    const Pair pair = connected();
    std::array<std::byte, 16> buffer;
    const auto nothing = receive_message(pair.server, buffer);
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().code, Code::Timeout);
}

TEST(MessageSocket, CarriesDescriptorsThatTheReceiverOwns) {
    const Pair pair = connected();
    auto memory = create_memory_file("viaduct-test", 4096, Backing::Allocated);
    ASSERT_TRUE(memory);
    auto mine = Mapping::map(memory.value(), 4096, Access::ReadWrite);
    ASSERT_TRUE(mine);
    std::memcpy(mine.value().data(), "shared", 6);
    const std::array fds{memory.value().get(), memory.value().get()};
    ASSERT_TRUE(
        send_message(pair.client, bytes_of("two"), fds, Deadline::after_milliseconds(1000)));

    std::array<std::byte, 16> buffer;
    auto message = receive_message(pair.server, buffer);
    ASSERT_TRUE(message);
    EXPECT_FALSE(message.value().truncated);
    ASSERT_EQ(message.value().fds.size(), 2u);
    EXPECT_NE(message.value().fds[0].get(), memory.value().get());
    EXPECT_NE(fcntl(message.value().fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
    ASSERT_TRUE(verify_memory_file(message.value().fds[1], 4096));
    auto theirs = Mapping::map(message.value().fds[1], 4096, Access::ReadOnly);
    ASSERT_TRUE(theirs);
    EXPECT_EQ(std::memcmp(theirs.value().data(), "shared", 6), 0);
}

TEST(MessageSocket, MoreDescriptorsThanAllowedAreRefusedAtTheSender) {
    const Pair pair = connected();
    std::array<int, max_message_fds + 1> fds;
    fds.fill(pair.client.get());
    const auto sent =
        send_message(pair.client, bytes_of("x"), fds, Deadline::after_milliseconds(1000));
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::InvalidArgument);
}

TEST(MessageSocket, AFloodOfDescriptorsIsMarkedAndLeaksNone) {
    // What send_message refuses, a hostile peer does with a plain sendmsg().
    const Pair pair = connected();
    constexpr std::size_t many = 64;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * many)> control{};
    std::array<int, many> fds;
    fds.fill(pair.client.get());
    char letter = 'x';
    iovec part{&letter, 1};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof fds);
    ASSERT_EQ(sendmsg(pair.client.get(), &header, MSG_NOSIGNAL), 1);

    const int next_before = UniqueFd(dup(0)).get();
    {
        std::array<std::byte, 16> buffer;
        const auto message = receive_message(pair.server, buffer);
        ASSERT_TRUE(message);
        EXPECT_TRUE(message.value().truncated);
        EXPECT_LE(message.value().fds.size(), max_message_fds);
    }
    EXPECT_EQ(UniqueFd(dup(0)).get(), next_before);
}

TEST(MessageSocket, AMessageLongerThanTheBufferIsMarked) {
    const Pair pair = connected();
    const std::string text(100, 'x');
    ASSERT_TRUE(send_message(pair.client, bytes_of(text), {}, Deadline::after_milliseconds(1000)));
    std::array<std::byte, 10> buffer;
    const auto message = receive_message(pair.server, buffer);
    ASSERT_TRUE(message);
    EXPECT_TRUE(message.value().truncated);
    EXPECT_EQ(message.value().bytes, buffer.size());
}

TEST(MessageSocket, AClosedPeerIsSeenOnBothSides) {
    Pair pair = connected();
    pair.client.reset();
    std::array<std::byte, 16> buffer;
    const auto message = receive_message(pair.server, buffer);
    ASSERT_TRUE(message);
    EXPECT_EQ(message.value().bytes, 0u);
    const auto sent =
        send_message(pair.server, bytes_of("x"), {}, Deadline::after_milliseconds(1000));
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, Code::ConnectionLost);
}

TEST(MessageSocket, SendingToOneWhoDoesNotReadEndsAtTheDeadline) {
    const Pair pair = connected();
    const std::string text(4096, 'x');
    for (int count = 0; count < 100000; ++count) {
        const auto sent = send_message(pair.client, bytes_of(text), {}, Deadline::after(0));
        if (sent) continue;
        EXPECT_EQ(sent.error().code, Code::Timeout);
        // Once there is room again, it goes on.
        EXPECT_EQ(received_text(pair.server).size(), 256u);
        EXPECT_TRUE(
            send_message(pair.client, bytes_of("x"), {}, Deadline::after_milliseconds(10000)));
        return;
    }
    FAIL() << "the socket took 400 MB";
}

TEST(MessageSocket, NobodyListeningIsNotFound) {
    const auto abstract = connect_message_socket(fresh_address());
    ASSERT_FALSE(abstract);
    EXPECT_EQ(abstract.error().code, Code::NotFound);
    const auto path = connect_message_socket("/nonexistent/viaduct/socket");
    ASSERT_FALSE(path);
    EXPECT_EQ(path.error().code, Code::NotFound);
}

TEST(MessageSocket, AnAddressIsTakenOnlyOnce) {
    const std::string address = fresh_address();
    const auto first = listen_message_socket(address);
    ASSERT_TRUE(first);
    const auto second = listen_message_socket(address);
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().sentence.find(address), std::string::npos);
}

TEST(MessageSocket, AddressesThatCanNotBeAreRefused) {
    for (const std::string& address :
         {std::string(), std::string(108, 'x'), std::string(5000, 'x')}) {
        const auto listener = listen_message_socket(address);
        ASSERT_FALSE(listener);
        EXPECT_EQ(listener.error().code, Code::InvalidArgument);
        EXPECT_FALSE(connect_message_socket(address));
    }
}

TEST(MessageSocket, APathWorksAsAddress) {
    const std::string path = testing::TempDir() + "viaduct-" + std::to_string(getpid());
    const Pair pair = connected(path);
    ASSERT_TRUE(send_message(pair.client, bytes_of("x"), {}, Deadline::after_milliseconds(1000)));
    EXPECT_EQ(received_text(pair.server), "x");
    unlink(path.c_str());
}

TEST(MessageSocket, CredentialsAndPidfdNameTheProcessAtTheOtherEnd) {
    const std::string address = fresh_address();
    auto listener = listen_message_socket(address);
    ASSERT_TRUE(listener);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto socket = connect_message_socket(address);
        if (!socket) _exit(1);
        pollfd until_closed{socket.value().get(), POLLIN, 0};
        poll(&until_closed, 1, 20000);
        _exit(0);
    }
    pollfd incoming{listener.value().get(), POLLIN, 0};
    ASSERT_EQ(poll(&incoming, 1, 20000), 1);
    UniqueFd server(
        accept4(listener.value().get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ASSERT_TRUE(server.valid());

    const auto credentials = peer_credentials(server);
    ASSERT_TRUE(credentials);
    EXPECT_EQ(credentials.value().pid, child);
    EXPECT_EQ(credentials.value().uid, getuid());
    EXPECT_EQ(credentials.value().gid, getgid());

    const auto pidfd = peer_pidfd(server);
    ASSERT_TRUE(pidfd) << pidfd.error().sentence;
    pollfd alive{pidfd.value().get(), POLLIN, 0};
    EXPECT_EQ(poll(&alive, 1, 0), 0);
    server.reset();
    EXPECT_EQ(poll(&alive, 1, 20000), 1);  // readable: the process has ended
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(MessageSocket, WhatIsNoSocketGivesErrors) {
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    std::array<std::byte, 16> buffer;
    EXPECT_FALSE(receive_message(null, buffer));
    EXPECT_FALSE(send_message(null, bytes_of("x"), {}, Deadline::after(0)));
    EXPECT_FALSE(peer_credentials(null));
    EXPECT_FALSE(peer_pidfd(null));
}

}  // namespace
