// SPDX-License-Identifier: BSD-3-Clause
// Which call is legal in which VI state: the table of states, row by row, and the ways from one
// state to another.
#include <string>
#include <thread>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

class States : public testing::TestWithParam<VIP_VI_STATE> {
  protected:
    Nic nic_;
    VIP_PROTECTION_HANDLE tag_ = make_tag(nic_);
    Arena arena_{nic_, {.tag = tag_}};
    ViInState subject_{nic_, GetParam(), {.tag = tag_}};

    [[nodiscard]] static VIP_VI_STATE state() { return GetParam(); }
    [[nodiscard]] static VIP_RETURN only_when_idle() {
        return state() == VIP_STATE_IDLE ? VIP_SUCCESS : VIP_INVALID_STATE;
    }
    VIP_DESCRIPTOR* message() { return arena_.message(arena_.take(64), 64); }
};

TEST_P(States, ConnectRequest) {
    Address local(nic_, unique_discriminator());
    Address remote(nic_, unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    const VIP_RETURN expected = state() == VIP_STATE_IDLE ? VIP_NO_MATCH : VIP_INVALID_STATE;
    EXPECT_VIP(expected,
               VipConnectRequest(subject_.vi, local.get(), remote.get(), patience_ms, &attributes));
    EXPECT_EQ(subject_.vi.state(), state());
}

TEST_P(States, ConnectAccept) {
    Vi client(nic_);
    Address server_address(nic_, unique_discriminator());
    Address client_address(nic_, unique_discriminator());
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester(
        [&] { requested = request_until_matched(client, client_address, server_address); });
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipConnectWait(nic_, server_address.get(), patience_ms, remote.get(),
                                           &attributes, &connection));
    const VIP_RETURN accepted = VipConnectAccept(connection, subject_.vi);
    EXPECT_VIP(only_when_idle(), accepted);
    // A refused accept leaves the request with the server.
    if (accepted != VIP_SUCCESS) {
        EXPECT_VIP(VIP_SUCCESS, VipConnectReject(connection));
    }
    requester.join();
    EXPECT_VIP(accepted == VIP_SUCCESS ? VIP_SUCCESS : VIP_REJECT, requested);
    EXPECT_EQ(subject_.vi.state(), state() == VIP_STATE_IDLE ? VIP_STATE_CONNECTED : state());
}

TEST_P(States, ConnectPeerRequest) {
    Address local(nic_, unique_discriminator());
    Address remote(nic_, unique_discriminator());
    EXPECT_VIP(only_when_idle(),
               VipConnectPeerRequest(subject_.vi, local.get(), remote.get(), VIP_INFINITE));
    EXPECT_EQ(subject_.vi.state(), state() == VIP_STATE_IDLE ? VIP_STATE_CONNECT_PENDING : state());
}

TEST_P(States, ConnectPeerDone) {
    VIP_VI_ATTRIBUTES attributes{};
    const VIP_RETURN expected =
        state() == VIP_STATE_CONNECT_PENDING ? VIP_NOT_DONE : VIP_INVALID_STATE;
    EXPECT_VIP(expected, VipConnectPeerDone(subject_.vi, &attributes));
    EXPECT_EQ(subject_.vi.state(), state());
}

TEST_P(States, ConnectPeerWait) {
    // Pending blocks and is tested with the peer connections.
    if (state() == VIP_STATE_CONNECT_PENDING) return;
    VIP_VI_ATTRIBUTES attributes{};
    EXPECT_VIP(VIP_INVALID_STATE, VipConnectPeerWait(subject_.vi, &attributes));
    EXPECT_EQ(subject_.vi.state(), state());
}

TEST_P(States, Disconnect) {
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(subject_.vi));
    EXPECT_EQ(subject_.vi.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(subject_.vi));
    EXPECT_EQ(subject_.vi.state(), VIP_STATE_IDLE);
}

TEST_P(States, DestroyVi) {
    const VIP_VI_HANDLE handle = subject_.vi;
    EXPECT_VIP(only_when_idle(), VipDestroyVi(handle));
    if (state() == VIP_STATE_IDLE) {
        subject_.vi.forget();
    } else {
        EXPECT_EQ(subject_.vi.state(), state());
    }
}

TEST_P(States, SetViAttributes) {
    VIP_VI_ATTRIBUTES attributes = subject_.vi.attributes();
    attributes.EnableRdmaWrite = VIP_FALSE;
    EXPECT_VIP(only_when_idle(), VipSetViAttributes(subject_.vi, &attributes));
    EXPECT_EQ(subject_.vi.attributes().EnableRdmaWrite,
              state() == VIP_STATE_IDLE ? VIP_FALSE : VIP_TRUE);
}

TEST_P(States, QueryVi) {
    VIP_VI_STATE seen = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(subject_.vi, &seen, &attributes, &send_empty, &recv_empty));
    EXPECT_EQ(seen, state());
    EXPECT_EQ(send_empty, VIP_TRUE);
    EXPECT_EQ(recv_empty, VIP_TRUE);
}

TEST_P(States, PostRecv) {
    VIP_DESCRIPTOR* descriptor = message();
    EXPECT_VIP(VIP_SUCCESS, VipPostRecv(subject_.vi, descriptor, arena_.handle()));
    if (state() == VIP_STATE_ERROR) {
        const Completion completion = subject_.vi.await_recv();
        EXPECT_VIP(VIP_DESCRIPTOR_ERROR, completion.code);
        EXPECT_EQ(completion.descriptor, descriptor);
        EXPECT_EQ(completion.errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
        EXPECT_TRUE(subject_.vi.recv_queue_empty());
    } else {
        VIP_DESCRIPTOR* head = nullptr;
        EXPECT_VIP(VIP_NOT_DONE, VipRecvDone(subject_.vi, &head));
        EXPECT_FALSE(subject_.vi.recv_queue_empty());
    }
}

TEST_P(States, PostSend) {
    if (state() == VIP_STATE_CONNECTED) return;  // every other file of this suite
    VIP_DESCRIPTOR* descriptor = message();
    EXPECT_VIP(VIP_SUCCESS, VipPostSend(subject_.vi, descriptor, arena_.handle()));
    // At once: the very first look finds it complete.
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendDone(subject_.vi, &head));
    ASSERT_EQ(head, descriptor);
    EXPECT_EQ(head->CS.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK),
              static_cast<unsigned>(VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR));
    EXPECT_EQ(subject_.vi.state(), state());
}

TEST_P(States, DoneAndWaitOnEmptyQueues) {
    VIP_DESCRIPTOR poison{};
    VIP_DESCRIPTOR* head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendDone(subject_.vi, &head));
    EXPECT_EQ(head, nullptr);
    head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvDone(subject_.vi, &head));
    EXPECT_EQ(head, nullptr);
    head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipSendWait(subject_.vi, VIP_INFINITE, &head));
    EXPECT_EQ(head, nullptr);
    head = &poison;
    EXPECT_VIP(VIP_DESCRIPTOR_ERROR, VipRecvWait(subject_.vi, VIP_INFINITE, &head));
    EXPECT_EQ(head, nullptr);
}

TEST_P(States, RecvWaitTimesOut) {
    if (state() == VIP_STATE_ERROR) return;  // nothing stays on a queue there
    ASSERT_VIP(VIP_SUCCESS, VipPostRecv(subject_.vi, message(), arena_.handle()));
    VIP_DESCRIPTOR* head = nullptr;
    EXPECT_VIP(VIP_TIMEOUT, VipRecvWait(subject_.vi, 1, &head));
    EXPECT_FALSE(subject_.vi.recv_queue_empty());
}

INSTANTIATE_TEST_SUITE_P(In, States,
                         testing::Values(VIP_STATE_IDLE, VIP_STATE_CONNECT_PENDING,
                                         VIP_STATE_CONNECTED, VIP_STATE_ERROR),
                         [](const testing::TestParamInfo<VIP_VI_STATE>& state) -> std::string {
                             switch (state.param) {
                                 case VIP_STATE_IDLE:
                                     return "Idle";
                                 case VIP_STATE_CONNECT_PENDING:
                                     return "ConnectPending";
                                 case VIP_STATE_CONNECTED:
                                     return "Connected";
                                 case VIP_STATE_ERROR:
                                     return "Error";
                             }
                             return "none";
                         });

TEST(StateChanges, AViGoesRoundTheWholeCircleAgainAndAgain) {
    Pair pair;
    for (int i = 0; i < 5; ++i) {
        expect_traffic(pair);
        Vi& leaver = i % 2 == 0 ? pair.client.vi : pair.server.vi;
        Vi& left = i % 2 == 0 ? pair.server.vi : pair.client.vi;
        ASSERT_VIP(VIP_SUCCESS, VipDisconnect(leaver));
        EXPECT_EQ(leaver.state(), VIP_STATE_IDLE);
        ASSERT_TRUE(left.becomes(VIP_STATE_ERROR));
        ASSERT_VIP(VIP_SUCCESS, VipDisconnect(left));
        EXPECT_EQ(left.state(), VIP_STATE_IDLE);
        pair.connect_again();
    }
    expect_traffic(pair);
}

TEST(StateChanges, ErrorIsLeftOnlyByDisconnect) {
    Pair pair;
    ASSERT_VIP(VIP_SUCCESS, VipDisconnect(pair.client.vi));
    ASSERT_TRUE(pair.server.vi.becomes(VIP_STATE_ERROR));
    pair.server.vi.drain_recv();
    pair.server.vi.drain_send();
    VIP_VI_ATTRIBUTES attributes = pair.server.vi.attributes();
    EXPECT_VIP(VIP_INVALID_STATE, VipSetViAttributes(pair.server.vi, &attributes));
    EXPECT_EQ(pair.server.vi.state(), VIP_STATE_ERROR);
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(pair.server.vi));
    EXPECT_EQ(pair.server.vi.state(), VIP_STATE_IDLE);
}

TEST(StateChanges, ThePendingStateIsSeenDuringAConnectRequest) {
    Nic nic;
    Vi client(nic);
    Vi server(nic);
    Address server_address(nic, unique_discriminator());
    Address client_address(nic, unique_discriminator());
    VIP_RETURN requested = VIP_NOT_DONE;
    std::thread requester(
        [&] { requested = request_until_matched(client, client_address, server_address); });
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    EXPECT_VIP(VIP_SUCCESS, VipConnectWait(nic, server_address.get(), patience_ms, remote.get(),
                                           &attributes, &connection));
    // The request is in the server's hands, so the client is still inside its call.
    EXPECT_EQ(client.state(), VIP_STATE_CONNECT_PENDING);
    EXPECT_EQ(server.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_SUCCESS, VipConnectAccept(connection, server));
    requester.join();
    EXPECT_VIP(VIP_SUCCESS, requested);
    EXPECT_EQ(client.state(), VIP_STATE_CONNECTED);
    EXPECT_EQ(server.state(), VIP_STATE_CONNECTED);
}

}  // namespace
}  // namespace via::test
