// SPDX-License-Identifier: BSD-3-Clause
// VipErrorCallback: which errors come without a descriptor, whom they reach, what they say.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

TEST(AsyncError, ConnectionLostNamesTheVi) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    ASSERT_TRUE(pair.server.nic.errors().await(VIP_ERROR_CONN_LOST, pair.server.vi));
    const VIP_ERROR_DESCRIPTOR error = pair.server.nic.errors().first(VIP_ERROR_CONN_LOST);
    EXPECT_EQ(error.NicHandle, static_cast<VIP_NIC_HANDLE>(pair.server.nic));
    EXPECT_EQ(error.ViHandle, static_cast<VIP_VI_HANDLE>(pair.server.vi));
    EXPECT_EQ(error.ResourceCode, VIP_RESOURCE_VI);
}

TEST(AsyncError, ReceiveQueueEmptyNamesTheVi) {
    Pair pair(unreliable);
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    ASSERT_TRUE(pair.server.raises(VIP_ERROR_RECVQ_EMPTY));
    const VIP_ERROR_DESCRIPTOR error = pair.server.nic.errors().first(VIP_ERROR_RECVQ_EMPTY);
    EXPECT_EQ(error.NicHandle, static_cast<VIP_NIC_HANDLE>(pair.server.nic));
    EXPECT_EQ(error.ResourceCode, VIP_RESOURCE_VI);
}

TEST(AsyncError, OverrunNamesTheVi) {
    Nic nic;
    const auto maximum = static_cast<std::size_t>(nic.attributes().MaxDescriptorsPerQueue);
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    Arena arena(nic, {.bytes = 64 * (maximum + 1), .tag = tag});
    Vi vi(nic, {.tag = tag});
    for (std::size_t i = 0; i < maximum; ++i) {
        ASSERT_VIP(VIP_SUCCESS, VipPostRecv(vi, arena.descriptor(), arena.handle()));
    }
    ASSERT_VIP(VIP_ERROR_RESOURCE, VipPostRecv(vi, arena.descriptor(), arena.handle()));
    ASSERT_TRUE(nic.errors().await(VIP_ERROR_VI_OVERRUN, vi));
    const VIP_ERROR_DESCRIPTOR error = nic.errors().first(VIP_ERROR_VI_OVERRUN);
    EXPECT_EQ(error.NicHandle, static_cast<VIP_NIC_HANDLE>(nic));
    EXPECT_EQ(error.ResourceCode, VIP_RESOURCE_VI);
}

TEST(AsyncError, ABadPostNamesTheDescriptor) {
    Pair pair(unreliable);
    alignas(64) static std::byte memory[64];
    auto* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(memory);
    ASSERT_VIP(VIP_INVALID_PARAMETER, VipPostSend(pair.client.vi, descriptor, 0x12345678));
    ASSERT_TRUE(pair.client.nic.errors().await(VIP_ERROR_POST_DESC, pair.client.vi));
    const VIP_ERROR_DESCRIPTOR error = pair.client.nic.errors().first(VIP_ERROR_POST_DESC);
    EXPECT_EQ(error.NicHandle, static_cast<VIP_NIC_HANDLE>(pair.client.nic));
    EXPECT_EQ(error.ViHandle, static_cast<VIP_VI_HANDLE>(pair.client.vi));
    EXPECT_EQ(error.DescriptorPtr, descriptor);
    EXPECT_EQ(error.ResourceCode, VIP_RESOURCE_DESCRIPTOR);
}

TEST(AsyncError, ARefusedRdmaWriteNamesTheVi) {
    Pair pair({.level = unreliable, .rdma_write = false});
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_write(
                                pair.client.arena.take(8), 8,
                                {pair.server.arena.take(8), pair.server.arena.handle()})));
    ASSERT_TRUE(pair.server.raises(VIP_ERROR_RDMAW_PROT));
    EXPECT_EQ(pair.server.nic.errors().first(VIP_ERROR_RDMAW_PROT).ResourceCode, VIP_RESOURCE_VI);
    EXPECT_EQ(pair.client.nic.errors().count(), 0U);
}

TEST(AsyncError, ARefusedRdmaReadNamesTheVi) {
    Pair pair({.rdma_read = false});
    if (!pair.client.nic.reads_at(reliable_delivery)) GTEST_SKIP() << "no RDMA read";
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_read(
                                pair.client.arena.take(8), 8,
                                {pair.server.arena.take(8), pair.server.arena.handle()})));
    ASSERT_TRUE(pair.server.raises(VIP_ERROR_RDMAR_PROT));
    EXPECT_EQ(pair.server.nic.errors().first(VIP_ERROR_RDMAR_PROT).ResourceCode, VIP_RESOURCE_VI);
}

// A target that makes no call has nobody but the library to look after it.

TEST(IdleTarget, IsToldOfAMessageThatWasDropped) {
    Pair pair(unreliable);
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_RECVQ_EMPTY, pair.server.vi));
}

TEST(IdleTarget, IsToldOfARefusedRdmaWrite) {
    Pair pair({.level = unreliable, .rdma_write = false});
    ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.rdma_write(
                                pair.client.arena.take(8), 8,
                                {pair.server.arena.take(8), pair.server.arena.handle()})));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_RDMAW_PROT, pair.server.vi));
}

TEST(IdleTarget, IsToldOfALostConnection) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_CONN_LOST, pair.server.vi));
}

TEST(IdleTarget, BreaksAReliableConnectionAllTheSame) {
    Pair pair(reliable_delivery);
    ASSERT_VIP(VIP_SUCCESS,
               pair.client.post_send(pair.client.arena.message(pair.client.arena.take(8), 8)));
    // Only the sender is looked at.
    EXPECT_TRUE(pair.client.vi.becomes(VIP_STATE_ERROR));
    EXPECT_TRUE(pair.server.nic.errors().await(VIP_ERROR_RECVQ_EMPTY, pair.server.vi));
}

TEST(IdleTarget, ReceivesLargeMessages) {
    for (const VIP_RELIABILITY_LEVEL level : {unreliable, reliable_delivery, reliable_reception}) {
        SCOPED_TRACE(level_name(level));
        const Nic nic;
        if ((nic.attributes().ReliabilityLevelSupport & level) == 0) continue;
        Pair pair({.level = level, .arena_bytes = 4U << 20});
        constexpr std::size_t bytes = 1U << 20;
        std::byte* source = pair.client.arena.take(bytes);
        std::byte* target = pair.server.arena.take(bytes);
        fill_pattern(source, bytes, 4);
        ASSERT_VIP(VIP_SUCCESS, pair.server.post_recv(pair.server.arena.message(target, bytes)));
        ASSERT_VIP(VIP_SUCCESS, pair.client.post_send(pair.client.arena.message(source, bytes)));
        VIP_DESCRIPTOR* head = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipSendWait(pair.client.vi, patience_ms, &head));
        ASSERT_VIP(VIP_SUCCESS, VipRecvWait(pair.server.vi, patience_ms, &head));
        EXPECT_TRUE(has_pattern(target, bytes, 4));
    }
}

TEST(AsyncError, ReachesOnlyTheNicHandleOfTheVi) {
    Pair pair;
    Nic bystander;
    const Vi idle(bystander);
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    ASSERT_TRUE(pair.server.nic.errors().await(VIP_ERROR_CONN_LOST, pair.server.vi));
    EXPECT_EQ(bystander.errors().count(), 0U);
    EXPECT_EQ(pair.client.nic.errors().count(), 0U);
    EXPECT_EQ(pair.server.nic.errors().count(), 1U);
}

TEST(AsyncError, ANewHandlerReplacesTheOld) {
    Pair pair;
    ErrorRecorder second;
    ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(pair.server.nic, &second, &ErrorRecorder::handle));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(second.await(VIP_ERROR_CONN_LOST, pair.server.vi));
    EXPECT_EQ(pair.server.nic.errors().count(), 0U);
    ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(pair.server.nic, nullptr, nullptr));
}

TEST(AsyncError, TheHandlerRunsOnAThreadOfTheLibrary) {
    struct Where {
        std::mutex mutex;
        std::condition_variable changed;
        bool called = false;
        std::thread::id thread;
        static void handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR*) {
            auto* self = static_cast<Where*>(context);
            const std::lock_guard lock(self->mutex);
            self->called = true;
            self->thread = std::this_thread::get_id();
            self->changed.notify_all();
        }
    } where;
    Pair pair(unreliable);
    ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(pair.client.nic, &where, &Where::handle));
    alignas(64) static std::byte memory[64];
    // Raised inside our own call, handled elsewhere.
    ASSERT_VIP(VIP_INVALID_PARAMETER,
               VipPostSend(pair.client.vi, reinterpret_cast<VIP_DESCRIPTOR*>(memory), 0x12345678));
    {
        std::unique_lock lock(where.mutex);
        ASSERT_TRUE(where.changed.wait_for(lock, patience, [&] { return where.called; }));
        EXPECT_NE(where.thread, std::this_thread::get_id());
    }
    ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(pair.client.nic, nullptr, nullptr));
}

TEST(AsyncError, AHandlerMayCallTheLibrary) {
    struct Caller {
        std::atomic<int> outcome{-1};
        static void handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
            auto* self = static_cast<Caller*>(context);
            VIP_VI_STATE state = VIP_STATE_IDLE;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_BOOLEAN send_empty = VIP_FALSE;
            VIP_BOOLEAN recv_empty = VIP_FALSE;
            const VIP_RETURN code =
                VipQueryVi(error->ViHandle, &state, &attributes, &send_empty, &recv_empty);
            self->outcome = code == VIP_SUCCESS ? static_cast<int>(state) : 100;
        }
    } caller;
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(pair.server.nic, &caller, &Caller::handle));
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    EXPECT_TRUE(eventually([&] { return caller.outcome.load() >= 0; }));
    EXPECT_EQ(caller.outcome.load(), static_cast<int>(VIP_STATE_ERROR));
    ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(pair.server.nic, nullptr, nullptr));
}

TEST(AsyncError, NothingComesAfterTheNicIsClosed) {
    ErrorRecorder recorder;
    Nic other_nic;
    Vi other(other_nic);
    {
        Nic nic;
        Vi vi(nic);
        ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(nic, &recorder, &ErrorRecorder::handle));
        ASSERT_VIP(VIP_SUCCESS, connect(vi, other).request);
        vi.forget();
        nic.close();
    }
    const std::size_t at_close = recorder.count();
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(other));
    // Any event of the library's thread now would come before this one.
    alignas(64) static std::byte memory[64];
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipPostSend(other, reinterpret_cast<VIP_DESCRIPTOR*>(memory), 0x12345678));
    EXPECT_TRUE(other_nic.errors().await(VIP_ERROR_POST_DESC, other));
    EXPECT_EQ(at_close, 0U);
    EXPECT_EQ(recorder.count(), 0U);
}

TEST(AsyncError, RefusesABadNic) {
    ErrorRecorder recorder;
    int something = 0;
    EXPECT_VIP(VIP_INVALID_PARAMETER, VipErrorCallback(nullptr, &recorder, &ErrorRecorder::handle));
    EXPECT_VIP(VIP_INVALID_PARAMETER,
               VipErrorCallback(&something, &recorder, &ErrorRecorder::handle));
}

/// Loses a connection with the default handler; `restore`: after another one was installed.
void lose_a_connection(Link& link, bool restore) {
    ClientEnd client;
    if (restore) {
        ASSERT_VIP(VIP_SUCCESS, VipErrorCallback(client.nic, nullptr, nullptr));
    } else {
        // The harness installed a recorder; a second handle has never had a handler.
        client.request(link);
        link.meet();
        VIP_NIC_HANDLE fresh = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipOpenNic(device(), &fresh));
        VIP_VI_ATTRIBUTES attributes = attributes_for(client.nic, {});
        VIP_VI_HANDLE vi = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipCreateVi(fresh, &attributes, nullptr, nullptr, &vi));
        auto remote = link.get<Address>();
        Address local(client.nic, unique_discriminator());
        ASSERT_VIP(VIP_SUCCESS, request_until_matched(vi, local, remote));
        link.meet();
        VIP_VI_STATE state = VIP_STATE_IDLE;
        VIP_BOOLEAN send_empty = VIP_FALSE;
        VIP_BOOLEAN recv_empty = VIP_FALSE;
        EXPECT_TRUE(eventually([&] {
            EXPECT_VIP(VIP_SUCCESS, VipQueryVi(vi, &state, &attributes, &send_empty, &recv_empty));
            return state == VIP_STATE_ERROR;
        }));
        link.meet();
        EXPECT_VIP(VIP_SUCCESS, VipCloseNic(fresh));
        return;
    }
    client.request(link);
    link.meet();
    EXPECT_TRUE(client.end.vi.becomes(VIP_STATE_ERROR));
    link.meet();
}

PEER(default_handler_from_the_start) {
    lose_a_connection(link, false);
}
PEER(default_handler_restored) {
    lose_a_connection(link, true);
}

class StderrPipe {
  public:
    StderrPipe() {
        if (pipe2(fds_, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    }
    ~StderrPipe() {
        ::close(fds_[0]);
        close_write();
    }
    StderrPipe(const StderrPipe&) = delete;
    StderrPipe& operator=(const StderrPipe&) = delete;
    [[nodiscard]] int write_end() const { return fds_[1]; }
    void close_write() {
        if (fds_[1] >= 0) ::close(fds_[1]);
        fds_[1] = -1;
    }
    /// Everything until the last writer is gone or nothing comes for a while.
    [[nodiscard]] std::string read_all() {
        close_write();
        fcntl(fds_[0], F_SETFL, O_NONBLOCK);
        std::string text;
        static_cast<void>(eventually([&] {
            char buffer[4096];
            const ssize_t count = ::read(fds_[0], buffer, sizeof buffer);
            if (count > 0) text.append(buffer, static_cast<std::size_t>(count));
            return count == 0 || text.find("connection was lost") != std::string::npos;
        }));
        return text;
    }

  private:
    int fds_[2] = {-1, -1};
};

TEST(AsyncError, WithoutAHandlerTheErrorIsLogged) {
    NEEDS_TWO_PROCESSES();
    StderrPipe pipe;
    PeerProcess peer("default_handler_from_the_start", {{"VIA_LOG", "warning"}}, pipe.write_end());
    ServerEnd first;
    first.accept(peer.link);
    peer.link.meet();
    ServerEnd second;
    second.accept(peer.link);
    peer.link.meet();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(second.end.vi));
    const std::string text = pipe.read_all();
    EXPECT_NE(text.find("connection was lost"), std::string::npos) << text;
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

TEST(AsyncError, NullBringsTheLoggingBack) {
    NEEDS_TWO_PROCESSES();
    StderrPipe pipe;
    PeerProcess peer("default_handler_restored", {{"VIA_LOG", "warning"}}, pipe.write_end());
    ServerEnd server;
    server.accept(peer.link);
    peer.link.meet();
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(server.end.vi));
    const std::string text = pipe.read_all();
    EXPECT_NE(text.find("connection was lost"), std::string::npos) << text;
    peer.link.meet();
    EXPECT_EQ(peer.wait(), 0);
}

}  // namespace
}  // namespace via::test
