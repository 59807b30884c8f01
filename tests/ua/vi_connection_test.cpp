// SPDX-License-Identifier: BSD-3-Clause
// The life of a connection as the user agent decides it, whatever the device.
#include <set>
#include <thread>

#include "na/seeded.hpp"
#include "ua/scripted_vi.hpp"

using namespace via;
using namespace via::test;
using base::Code;
using na::EndpointEvent;
using ua::DoneOutcome;
using ua::PostOutcome;
using ua::ViState;

namespace {

using Codes = std::vector<VIP_ERROR_CODE>;

class ViConnection : public ScriptedVi {
  protected:
    void SetUp() override {
        ScriptedVi::SetUp();
        open(na::reliable_delivery);
    }
};

TEST_F(ViConnection, BeginsIdle) {
    ua::ViSnapshot snapshot;
    ASSERT_TRUE(vi->snapshot(handle, snapshot));
    EXPECT_EQ(snapshot.state, ViState::Idle);
    EXPECT_TRUE(snapshot.send_empty);
    EXPECT_TRUE(snapshot.receive_empty);
    EXPECT_EQ(snapshot.attributes.reliability, na::reliable_delivery);
    EXPECT_EQ(snapshot.attributes.tag, tag);
}

TEST_F(ViConnection, RequestThatSucceedsConnects) {
    auto remote = vi->connect_request(handle, {}, {}, far());
    ASSERT_TRUE(remote);
    EXPECT_EQ(remote.value().rights, 3U);
    EXPECT_EQ(state(), ViState::Connected);
    EXPECT_EQ(endpoint->queues().counters->peer_pid.get(), 4711U);
}

TEST_F(ViConnection, RequestThatFailsLeavesItIdleWithItsReceives) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    for (const Code code : {Code::NoMatch, Code::Timeout, Code::Rejected, Code::NotReachable}) {
        device().on_connect = [&](auto&, auto&) {
            return base::Result<void>(code, "as the test wants");
        };
        auto outcome = vi->connect_request(handle, {}, {}, far());
        ASSERT_FALSE(outcome);
        EXPECT_EQ(outcome.error().code, code);
        EXPECT_EQ(state(), ViState::Idle);
        EXPECT_EQ(receive_done().outcome, DoneOutcome::NotDone);
    }
    // The same VI can be tried again, and the receive serves the connection.
    device().on_connect = nullptr;
    connect();
    endpoint->complete_receive(0, 8);
    EXPECT_EQ(receive_done().descriptor, &memory->descriptors[0].head);
    EXPECT_TRUE(error_codes().empty());
}

TEST_F(ViConnection, IsPendingWhileTheDeviceConnects) {
    device().on_connect = [&](ScriptedEndpoint&, const na::ConnectTerms& terms) {
        EXPECT_NE(terms.vi, 0U);
        EXPECT_EQ(state(), ViState::ConnectPending);
        // What each call says meanwhile.
        auto again = vi->connect_request(handle, {}, {}, far());
        EXPECT_EQ(again.error().code, Code::InvalidState);
        EXPECT_EQ(vi->connect_accept(handle, {}, far()).error().code, Code::InvalidState);
        EXPECT_EQ(vi->peer_request(handle, {}, {}, far()).error().code, Code::InvalidState);
        EXPECT_EQ(vi->change_attributes(handle, attributes(na::unreliable)).error().code,
                  Code::InvalidState);
        EXPECT_EQ(nic->destroy_vi(*vi, handle).error().code, Code::InvalidState);
        EXPECT_EQ(send(message(0)), PostOutcome::Success);
        EXPECT_EQ(send_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
        EXPECT_EQ(receive(message(1)), PostOutcome::Success);
        EXPECT_EQ(receive_done().outcome, DoneOutcome::NotDone);
        return base::Result<void>();
    };
    connect();
    EXPECT_EQ(receive_done().outcome, DoneOutcome::NotDone);
}

TEST_F(ViConnection, CanOnlyBeMadeWhileIdle) {
    connect();
    EXPECT_EQ(vi->connect_request(handle, {}, {}, far()).error().code, Code::InvalidState);
    endpoint->report(EndpointEvent::PeerDisconnected);
    ASSERT_EQ(state(), ViState::Error);
    EXPECT_EQ(vi->connect_request(handle, {}, {}, far()).error().code, Code::InvalidState);
    EXPECT_EQ(vi->change_attributes(handle, attributes(na::unreliable)).error().code,
              Code::InvalidState);
    ASSERT_TRUE(vi->disconnect(handle));
    EXPECT_TRUE(vi->change_attributes(handle, attributes(na::unreliable)));
    connect();
}

TEST_F(ViConnection, AcceptComparesTheAttributes) {
    const auto attempt = [&](auto change) {
        ka::IncomingRequest request;
        request.request = 5;
        request.remote_attributes = attributes(na::reliable_delivery);
        change(request.remote_attributes);
        const auto outcome = vi->connect_accept(handle, request, far());
        EXPECT_EQ(state(), outcome ? ViState::Connected : ViState::Idle);
        return outcome ? std::optional<Code>() : outcome.error().code;
    };
    EXPECT_EQ(attempt([](auto& theirs) { theirs.reliability = na::unreliable; }),
              Code::ReliabilityMismatch);
    EXPECT_EQ(attempt([](auto& theirs) { ++theirs.max_transfer_bytes; }),
              Code::TransferSizeMismatch);
    EXPECT_EQ(attempt([](auto& theirs) { theirs.quality_of_service = 9; }), Code::QosMismatch);
    EXPECT_EQ(endpoint->live(), false);
    EXPECT_EQ(attempt([](auto& theirs) { theirs.rights = 0; }), std::nullopt)
        << "what the other side allows is its own affair";
}

// ---- Peer to peer ------------------------------------------------------------------------------

TEST_F(ViConnection, PeerRequestIsPendingUntilTheDeviceKnows) {
    std::optional<base::Result<void>> answer;
    device().on_peer_poll = [&](ScriptedEndpoint&) { return answer; };
    ASSERT_TRUE(vi->peer_request(handle, {}, {}, far()));
    EXPECT_EQ(state(), ViState::ConnectPending);
    EXPECT_FALSE(vi->peer_done(handle));
    EXPECT_FALSE(vi->peer_done(handle));
    answer = base::Result<void>();
    auto outcome = vi->peer_done(handle);
    ASSERT_TRUE(outcome);
    EXPECT_TRUE(outcome->ok());
    EXPECT_EQ(state(), ViState::Connected);
    EXPECT_EQ(vi->peer_done(handle)->error().code, Code::InvalidState) << "it is told once";
}

TEST_F(ViConnection, PeerRequestThatFailsLeavesItIdle) {
    device().on_peer_poll = [](ScriptedEndpoint&) {
        return std::optional(base::Result<void>(Code::Timeout, "too late"));
    };
    device().on_peer_wait = [](ScriptedEndpoint&) {
        return base::Result<void>(Code::Timeout, "too late");
    };
    for (int round = 0; round < 2; ++round) {
        ASSERT_TRUE(vi->peer_request(handle, {}, {}, far()));
        const Code code =
            round == 0 ? vi->peer_done(handle)->error().code : vi->peer_wait(handle).error().code;
        EXPECT_EQ(code, Code::Timeout);
        EXPECT_EQ(state(), ViState::Idle);
        EXPECT_EQ(vi->peer_wait(handle).error().code, Code::InvalidState);
    }
    device().on_connect = [](auto&, auto&) {
        return base::Result<void>(Code::OutOfResources, "no more");
    };
    EXPECT_EQ(vi->peer_request(handle, {}, {}, far()).error().code, Code::OutOfResources);
    EXPECT_EQ(state(), ViState::Idle);
}

TEST_F(ViConnection, PeersMustAgree) {
    const auto attempt = [&](auto change) {
        device().on_peer_wait = [&](ScriptedEndpoint& own) {
            change(own.queues().remote);
            return base::Result<void>();
        };
        EXPECT_TRUE(vi->peer_request(handle, {}, {}, far()));
        const int ended = endpoint->disconnects();
        const auto outcome = vi->peer_wait(handle);
        EXPECT_EQ(endpoint->disconnects(), ended + 1) << "the other side must learn it";
        EXPECT_EQ(state(), ViState::Idle);
        return outcome.error().code;
    };
    EXPECT_EQ(attempt([](auto& theirs) { theirs.reliability = na::unreliable; }),
              Code::ReliabilityMismatch);
    EXPECT_EQ(attempt([](auto& theirs) { ++theirs.max_transfer_bytes; }),
              Code::TransferSizeMismatch);
    EXPECT_EQ(attempt([](auto& theirs) { theirs.quality_of_service = 9; }), Code::QosMismatch);
}

TEST_F(ViConnection, DisconnectCancelsAPeerRequest) {
    ASSERT_TRUE(vi->peer_request(handle, {}, {}, far()));
    ASSERT_TRUE(vi->disconnect(handle));
    EXPECT_EQ(device().peer_cancels, 1);
    EXPECT_EQ(state(), ViState::Idle);
    EXPECT_EQ(vi->peer_done(handle)->error().code, Code::InvalidState);
    connect();
}

TEST_F(ViConnection, DestroyingTheNicCancelsAPeerRequest) {
    ASSERT_TRUE(vi->peer_request(handle, {}, {}, far()));
    nic->close();
    EXPECT_EQ(device().peer_cancels, 1);
    EXPECT_EQ(device().endpoints(), 0U);
}

// ---- Other threads meanwhile --------------------------------------------------------------------

TEST_F(ViConnection, DisconnectWhileTheDeviceConnectsWins) {
    device().on_connect = [&](auto&, auto&) {
        EXPECT_TRUE(vi->disconnect(handle));
        EXPECT_EQ(state(), ViState::Idle);
        return base::Result<void>();
    };
    const auto outcome = vi->connect_request(handle, {}, {}, far());
    EXPECT_FALSE(outcome) << "it says that the VI is connected, but it is not";
    EXPECT_EQ(state(), ViState::Idle);
    EXPECT_FALSE(endpoint->live());
    EXPECT_EQ(endpoint->disconnects(), 1) << "the other side must learn it";
    device().on_connect = nullptr;
    connect();
}

TEST_F(ViConnection, DisconnectWhileAcceptingWins) {
    device().on_connect = [&](auto&, auto&) {
        EXPECT_TRUE(vi->disconnect(handle));
        return base::Result<void>();
    };
    ka::IncomingRequest request;
    request.remote_attributes = attributes(na::reliable_delivery);
    EXPECT_FALSE(vi->connect_accept(handle, request, far()));
    EXPECT_EQ(state(), ViState::Idle);
    EXPECT_FALSE(endpoint->live());
}

TEST_F(ViConnection, DisconnectEndsAPeerWait) {
    device().on_peer_wait = [&](ScriptedEndpoint&) {
        EXPECT_TRUE(vi->disconnect(handle));
        EXPECT_EQ(device().peer_cancels, 1);
        return base::Result<void>(Code::NotFound, "cancelled");
    };
    ASSERT_TRUE(vi->peer_request(handle, {}, {}, far()));
    EXPECT_EQ(vi->peer_wait(handle).error().code, Code::InvalidState);
    EXPECT_EQ(state(), ViState::Idle);
}

// The device works on the endpoint while it connects: it must not vanish under it.
TEST_F(ViConnection, TheEndpointStaysWhileTheDeviceConnects) {
    const auto stays = [&](const char* what) {
        return device().endpoints() == 1U ? testing::AssertionSuccess()
                                          : testing::AssertionFailure() << what;
    };
    device().on_connect = [&](auto&, auto&) {
        EXPECT_TRUE(vi->disconnect(handle));
        EXPECT_EQ(state(), ViState::Idle);
        [[maybe_unused]] const auto destroyed = nic->destroy_vi(*vi, handle);
        EXPECT_TRUE(stays("destroyed under the device's hands"));
        return base::Result<void>();
    };
    [[maybe_unused]] const auto outcome = vi->connect_request(handle, {}, {}, far());
    if (ua::vi_table().find(reinterpret_cast<void*>(handle)) != nullptr) {
        EXPECT_TRUE(nic->destroy_vi(*vi, handle));
    }
    EXPECT_EQ(device().endpoints(), 0U);
}

TEST_F(ViConnection, TheEndpointStaysWhileTheNicIsClosed) {
    device().on_connect = [&](auto&, auto&) {
        nic->close();
        EXPECT_EQ(device().endpoints(), 1U) << "destroyed under the device's hands";
        return base::Result<void>();
    };
    EXPECT_FALSE(vi->connect_request(handle, {}, {}, far()));
    EXPECT_EQ(device().endpoints(), 0U);
    EXPECT_EQ(ua::vi_table().find(reinterpret_cast<void*>(handle)), nullptr);
}

TEST_F(ViConnection, ASecondAttemptWaitsForTheEndOfTheFirst) {
    int attempts = 0;
    device().on_connect = [&](auto&, auto&) {
        if (++attempts > 1) return base::Result<void>();
        EXPECT_TRUE(vi->disconnect(handle));
        // Idle, but the device is still working on the first attempt.
        EXPECT_FALSE(vi->connect_request(handle, {}, {}, far()));
        EXPECT_EQ(attempts, 1) << "two connections would share one endpoint";
        return base::Result<void>();
    };
    EXPECT_FALSE(vi->connect_request(handle, {}, {}, far()));
    EXPECT_EQ(state(), ViState::Idle);
    connect();
}

// ---- The end
// -------------------------------------------------------------------------------------

class ViLoss : public ScriptedVi, public testing::WithParamInterface<std::uint32_t> {
  protected:
    void SetUp() override {
        ScriptedVi::SetUp();
        open(GetParam());
        connect();
    }
    [[nodiscard]] static bool reliable() { return GetParam() != na::unreliable; }
};

TEST_P(ViLoss, OfThePeerFlushesEverythingInOrder) {
    for (const EndpointEvent event :
         {EndpointEvent::PeerDisconnected, EndpointEvent::PeerDied,
          EndpointEvent::ProtocolViolation, EndpointEvent::OutOfMemory}) {
        for (std::size_t i = 0; i < 5; ++i) {
            ASSERT_EQ(send(message(i)), PostOutcome::Success);
            ASSERT_EQ(receive(message(10 + i)), PostOutcome::Success);
        }
        endpoint->complete_send(0, 8);
        endpoint->report(event);
        EXPECT_EQ(state(), ViState::Error);
        EXPECT_FALSE(endpoint->live());
        EXPECT_EQ(error_codes(), Codes{VIP_ERROR_CONN_LOST});
        for (std::size_t i = 0; i < 5; ++i) {
            const Taken sent = send_done();
            EXPECT_EQ(sent.descriptor, &memory->descriptors[i].head);
            EXPECT_EQ(sent.errors(), i == 0 ? 0 : VIP_STATUS_DESC_FLUSHED_ERROR);
            const Taken received = receive_done();
            EXPECT_EQ(received.descriptor, &memory->descriptors[10 + i].head);
            EXPECT_EQ(received.errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
            EXPECT_EQ(received.descriptor->CS.Length, 0U);
        }
        expect_empty(ua::Queue::Send);
        expect_empty(ua::Queue::Receive);
        // In Error everything comes back at once.
        ASSERT_EQ(send(message(0)), PostOutcome::Success);
        ASSERT_EQ(receive(message(1)), PostOutcome::Success);
        EXPECT_EQ(send_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
        EXPECT_EQ(receive_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
        EXPECT_EQ(nic->destroy_vi(*vi, handle).error().code, Code::InvalidState);
        ASSERT_TRUE(vi->disconnect(handle));
        EXPECT_EQ(state(), ViState::Idle);
        connect();
        EXPECT_TRUE(error_codes().empty());
    }
}

TEST_P(ViLoss, ByDisconnectIsNoError) {
    for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(send(message(i)), PostOutcome::Success);
        ASSERT_EQ(receive(message(10 + i)), PostOutcome::Success);
    }
    // News that arrive with it are no news any more.
    endpoint->report(EndpointEvent::PeerDisconnected);
    ASSERT_TRUE(vi->disconnect(handle));
    EXPECT_EQ(state(), ViState::Idle);
    EXPECT_EQ(endpoint->disconnects(), 1);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(send_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
        EXPECT_EQ(receive_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
    }
    expect_empty(ua::Queue::Send);
    EXPECT_TRUE(error_codes().empty());
    ASSERT_TRUE(vi->disconnect(handle)) << "twice is harmless";
    EXPECT_TRUE(nic->destroy_vi(*vi, handle));
    EXPECT_FALSE(vi->disconnect(handle));
}

TEST_P(ViLoss, IsToldOnceHoweverManyNewsThereAre) {
    endpoint->arrive([](na::QueuePair& queues) {
        queues.report(EndpointEvent::PeerDisconnected);
        queues.report(EndpointEvent::PeerDied);
        queues.report(EndpointEvent::ProtocolViolation);
    });
    EXPECT_EQ(state(), ViState::Error);
    EXPECT_EQ(error_codes(), Codes{VIP_ERROR_CONN_LOST});
}

TEST_P(ViLoss, FollowsFromRefusalsOnReliableConnectionsOnly) {
    const struct {
        EndpointEvent event;
        VIP_ERROR_CODE code;
    } cases[] = {{EndpointEvent::ReceiveQueueEmpty, VIP_ERROR_RECVQ_EMPTY},
                 {EndpointEvent::RdmaWriteRefused, VIP_ERROR_RDMAW_PROT},
                 {EndpointEvent::RdmaReadRefused, VIP_ERROR_RDMAR_PROT}};
    for (const auto& [event, code] : cases) {
        ASSERT_EQ(receive(message(0)), PostOutcome::Success);
        endpoint->report(event);
        EXPECT_EQ(state(), reliable() ? ViState::Error : ViState::Connected);
        EXPECT_EQ(error_codes(), Codes{code});
        if (reliable()) {
            EXPECT_EQ(receive_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
            ASSERT_TRUE(vi->disconnect(handle));
            connect();
        } else {
            EXPECT_EQ(receive_done().outcome, DoneOutcome::NotDone);
            endpoint->complete_receive(0, 8);
            EXPECT_EQ(receive_done().outcome, DoneOutcome::Success);
        }
    }
}

TEST_P(ViLoss, IsFoundByEveryCallThatLooks) {
    const auto lose = [&] { endpoint->report(EndpointEvent::PeerDied); };
    const auto renew = [&] {
        ASSERT_TRUE(vi->disconnect(handle));
        while (done(ua::Queue::Send).descriptor != nullptr) {
        }
        while (done(ua::Queue::Receive).descriptor != nullptr) {
        }
        connect();
    };
    // VipQueryVi, the way Iometer finds it.
    lose();
    EXPECT_EQ(state(), ViState::Error);
    renew();
    // VipRecvDone.
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    lose();
    EXPECT_EQ(receive_done().errors(), VIP_STATUS_DESC_FLUSHED_ERROR);
    renew();
    // VipSendWait.
    ASSERT_EQ(send(message(0)), PostOutcome::Success);
    lose();
    VIP_DESCRIPTOR* descriptor = nullptr;
    EXPECT_EQ(vi->wait(handle, ua::Queue::Send, far(), descriptor), DoneOutcome::DescriptorError);
    EXPECT_NE(descriptor, nullptr);
    renew();
    // Nobody: the service thread.
    device().serves = true;
    lose();
    nic->process().look_after();
    const base::Deadline deadline = far();
    while (endpoint->live() && !deadline.expired())
        sched_yield();
    EXPECT_FALSE(endpoint->live());
}

TEST_P(ViLoss, LeavesNothingBehindWhenTheNicIsClosed) {
    for (std::size_t i = 0; i < 5; ++i)
        ASSERT_EQ(receive(message(i)), PostOutcome::Success);
    ASSERT_EQ(send(message(9)), PostOutcome::Success);
    const std::uint32_t status = memory->descriptors[0].head.CS.Status;
    nic->close();
    EXPECT_EQ(ua::vi_table().find(reinterpret_cast<void*>(handle)), nullptr);
    EXPECT_EQ(device().endpoints(), 0U);
    EXPECT_EQ(memory->descriptors[0].head.CS.Status, status)
        << "the program's memory is not touched any more";
    // Whoever still has the handle gets an answer.
    VIP_DESCRIPTOR* descriptor = nullptr;
    EXPECT_EQ(vi->done(handle, ua::Queue::Send, descriptor), DoneOutcome::StaleHandle);
    EXPECT_EQ(vi->post_send(handle, message(0), memory_handle), PostOutcome::StaleHandle);
    EXPECT_EQ(vi->post_receive(handle, message(0), memory_handle), PostOutcome::StaleHandle);
    EXPECT_EQ(vi->wait(handle, ua::Queue::Send, far(), descriptor), DoneOutcome::StaleHandle);
    EXPECT_EQ(vi->notify(handle, ua::Queue::Send, {}), DoneOutcome::StaleHandle);
    ua::ViSnapshot snapshot;
    EXPECT_FALSE(vi->snapshot(handle, snapshot));
    EXPECT_EQ(vi->connect_request(handle, {}, {}, far()).error().code, Code::InvalidArgument);
    EXPECT_EQ(vi->change_attributes(handle, {}).error().code, Code::InvalidArgument);
    EXPECT_FALSE(vi->progress());
}

INSTANTIATE_TEST_SUITE_P(Levels, ViLoss,
                         testing::Values(na::unreliable, na::reliable_delivery,
                                         na::reliable_reception),
                         level_name);

// ---- Creating and destroying
// ---------------------------------------------------------------------

TEST_F(ViConnection, IsNotDestroyedWithDescriptorsOnItsQueues) {
    ASSERT_EQ(receive(message(0)), PostOutcome::Success);
    EXPECT_EQ(nic->destroy_vi(*vi, handle).error().code, Code::OutOfResources);
    ASSERT_TRUE(vi->disconnect(handle));
    EXPECT_EQ(nic->destroy_vi(*vi, handle).error().code, Code::OutOfResources)
        << "flushed, but not taken back";
    EXPECT_NE(receive_done().descriptor, nullptr);
    EXPECT_TRUE(nic->destroy_vi(*vi, handle));
    EXPECT_EQ(nic->destroy_vi(*vi, handle).error().code, Code::InvalidArgument);
}

TEST_F(ViConnection, IsDestroyedOnceWhoeverTries) {
    constexpr int rounds = repeated(300);
    for (int round = 0; round < rounds; ++round) {
        const std::uint64_t one = create(na::unreliable);
        ua::VirtualInterface& target = vi_of(one);
        std::atomic<int> successes{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i)
            threads.emplace_back([&] {
                if (nic->destroy_vi(target, one)) ++successes;
            });
        for (std::thread& thread : threads)
            thread.join();
        ASSERT_EQ(successes, 1);
    }
    // A place given back twice would be given out twice.
    std::vector<std::uint64_t> handles;
    std::set<ua::VirtualInterface*> places;
    for (int i = 0; i < 50; ++i) {
        handles.push_back(create(na::unreliable));
        places.insert(&vi_of(handles.back()));
    }
    EXPECT_EQ(places.size(), handles.size());
}

TEST_F(ViConnection, HoldsItsTag) {
    auto other = nic->create_tag();
    ASSERT_TRUE(other);
    ka::EndpointAttributes wanted = attributes(na::unreliable);
    wanted.tag = other.value();
    auto made = nic->create_vi(wanted, nullptr, nullptr);
    ASSERT_TRUE(made);
    EXPECT_EQ(nic->destroy_tag(other.value()).error().code, Code::OutOfResources);
    ASSERT_TRUE(nic->destroy_vi(vi_of(made.value()), made.value()));
    EXPECT_TRUE(nic->destroy_tag(other.value()));
    EXPECT_EQ(nic->create_vi(wanted, nullptr, nullptr).error().code, Code::ProtectionTag);
}

TEST_F(ViConnection, AFailedCreationLeavesNothing) {
    device().on_create = [] { return base::Result<void>(Code::OutOfResources, "no more"); };
    EXPECT_EQ(nic->create_vi(attributes(na::unreliable), nullptr, nullptr).error().code,
              Code::OutOfResources);
    device().on_create = nullptr;
    EXPECT_TRUE(nic->destroy_vi(*vi, handle));
    ASSERT_TRUE(nic->deregister_memory(memory.get(), memory_handle));
    EXPECT_TRUE(nic->destroy_tag(tag)) << "nobody uses it any more";
}

// The poll groups of another device are not this device's.
TEST_F(ViConnection, RefusesTheCompletionQueueOfAnotherDevice) {
    auto other = ua::Nic::open("shm0");
    ASSERT_TRUE(other) << other.error().sentence;
    const auto [cq, cq_handle] = create_cq();
    EXPECT_EQ(other.value()->create_vi(attributes(na::unreliable), cq, nullptr).error().code,
              Code::InvalidArgument);
    ka::EndpointAttributes plain = attributes(na::unreliable);
    plain.tag = ka::null_tag;
    EXPECT_EQ(other.value()->create_vi(plain, nullptr, cq).error().code, Code::InvalidArgument);
    EXPECT_TRUE(other.value()->create_vi(plain, nullptr, nullptr));
    other.value()->close();
}

}  // namespace
