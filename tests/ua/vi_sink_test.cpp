// SPDX-License-Identifier: BSD-3-Clause
// A layer above VIs that takes messages in place: who shows them, when the service thread asks for
// it, what is heard of the end. First with a scripted device, then through the shm device.
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <future>
#include <memory>
#include <thread>

#include "na/seeded.hpp"
#include "na/shm/noting_sink.hpp"
#include "ua/scripted_vi.hpp"

using namespace via;
using namespace via::test;
using ua::PacketOutcome;
using ua::PolledBy;

namespace {

/// Until `condition` holds or patience has run out.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition) {
    const base::Deadline deadline = far();
    while (!condition()) {
        if (deadline.expired()) return false;
        sched_yield();
    }
    return true;
}

class ViSink : public ScriptedVi {
  protected:
    void SetUp() override {
        ScriptedVi::SetUp();
        open_with_sink();
    }
    void TearDown() override {
        ScriptedVi::TearDown();  // before the sink goes
    }
    void open_with_sink(ua::CompletionQueue* cq = nullptr) {
        open(na::reliable_delivery, cq, cq, &sink);
        endpoint->set_shows_frames(true);
        connect();
    }
    /// A frame arrives. Where it is shown is noted.
    void arrive() {
        endpoint->arrive([this](na::QueuePair& queues) {
            shown_by_service = nic->process().service().on_loop_thread();
            const std::byte byte{7};
            EXPECT_TRUE(queues.sink->frame({&byte, 1, false, 0}));
        });
    }
    /// One round of the service thread, and all that it leads to.
    void service_round() {
        nic->process().service().post([this] { again = vi->progress(true); });
        settle_service();
        settle_service();
    }
    void serve_polls() {
        sink.on_serve = [this] {
            while (vi->poll_frames(handle, PolledBy::Service)) {
            }
            return false;
        };
    }

    NotingSink sink;
    std::atomic<bool> shown_by_service{false};
    bool again = false;
};

TEST_F(ViSink, IsShownFramesByTheLayersOwnPoll) {
    EXPECT_TRUE(vi->shows_frames(handle));
    EXPECT_FALSE(vi->poll_frames(handle));
    arrive();
    EXPECT_TRUE(vi->poll_frames(handle));
    EXPECT_EQ(sink.messages.size(), 1U);
    EXPECT_FALSE(shown_by_service);
    EXPECT_FALSE(vi->shows_frames(handle + (1 << 28)));
    EXPECT_FALSE(vi->poll_frames(handle + (1 << 28)));
}

TEST_F(ViSink, ServiceThreadShowsNothingItselfButAsksTheLayer) {
    service_round();  // whether or not the program has polled until now
    service_round();
    EXPECT_EQ(endpoint->armed(), na::Wakes::Service);
    const int before = sink.served;
    endpoint->arm(na::Wakes::Nobody);  // so that only these rounds look
    arrive();
    service_round();
    EXPECT_EQ(sink.served, before + 1);
    EXPECT_TRUE(sink.messages.empty()) << "the layer did not poll";
    serve_polls();
    service_round();
    EXPECT_EQ(sink.served, before + 2);
    EXPECT_EQ(sink.messages.size(), 1U);
    EXPECT_TRUE(shown_by_service);
    EXPECT_EQ(endpoint->armed(), na::Wakes::Service) << "arrivals still wake the service thread";
    service_round();
    EXPECT_EQ(sink.served, before + 2) << "no news";
    EXPECT_FALSE(again);
}

TEST_F(ViSink, IsNotServedWhileTheProgramPolls) {
    service_round();
    service_round();
    const int before = sink.served;
    for (int i = 0; i < 20; ++i) {
        vi->poll_frames(handle);
        EXPECT_EQ(endpoint->armed(), na::Wakes::Nobody);
        arrive();
        service_round();
        EXPECT_TRUE(again) << "it watches whether the program goes on";
        EXPECT_EQ(sink.served, before);
        EXPECT_EQ(endpoint->armed(), na::Wakes::Nobody);
    }
    serve_polls();
    service_round();
    EXPECT_EQ(sink.served, before + 1) << "now it has stopped";
    EXPECT_EQ(sink.messages.size(), 20U);
    EXPECT_EQ(endpoint->armed(), na::Wakes::Service);
}

TEST_F(ViSink, IsServedUntilItHasFinished) {
    std::atomic<int> left{5};
    sink.on_serve = [&] {
        if (left != 0) return --left != 0;
        while (vi->poll_frames(handle, PolledBy::Service)) {
        }
        return false;
    };
    device().serves = true;
    arrive();
    nic->process().look_after();
    ASSERT_TRUE(eventually([&] { return left == 0; }));
    // And by every arrival, without the program.
    for (int i = 0; i < 50; ++i) {
        arrive();
        ASSERT_TRUE(eventually([&] { return !endpoint->has_news(); }));
    }
    settle_service();
    EXPECT_EQ(sink.messages.size(), 51U);
}

TEST_F(ViSink, WhoeverSleepsIsNotOverlookedNorPolledFor) {
    const auto [cq, cq_handle] = create_cq();
    open_with_sink(cq);
    service_round();
    service_round();
    const int before = sink.served;
    cq->sleeper_enters();
    endpoint->arm(na::Wakes::Sleeper);
    service_round();
    EXPECT_EQ(sink.served, before);
    EXPECT_EQ(endpoint->armed(), na::Wakes::Sleeper);
    arrive();
    endpoint->arm(na::Wakes::Sleeper);
    endpoint->set_unfinished(true);
    service_round();
    EXPECT_TRUE(again);
    EXPECT_EQ(sink.served, before + 1);
    EXPECT_TRUE(sink.messages.empty());
    EXPECT_EQ(endpoint->armed(), na::Wakes::Sleeper);
    cq->sleeper_leaves();
    // A poll of the completion queue is the layer's own.
    ua::CompletionEntry entry;
    EXPECT_FALSE(cq->poll(entry));
    EXPECT_EQ(sink.messages.size(), 1U);
    EXPECT_FALSE(shown_by_service);
}

TEST_F(ViSink, HearsOfCompletionsOfADeviceThatShowsNothing) {
    endpoint->set_shows_frames(false);
    EXPECT_FALSE(vi->shows_frames(handle));
    EXPECT_EQ(vi->longest_packet(handle), 0U);
    EXPECT_EQ(vi->send_packet(handle, {}, 0), PacketOutcome::NoRoom);
    ASSERT_EQ(receive(message(0)), ua::PostOutcome::Success);
    service_round();
    service_round();
    const int before = sink.served;
    endpoint->complete_receive(0, 8);
    service_round();
    EXPECT_EQ(sink.served, before + 1);
    EXPECT_EQ(receive_done().outcome, ua::DoneOutcome::Success);
}

TEST_F(ViSink, HearsOnceThatTheConnectionIsLost) {
    for (int round = 1; round <= 3; ++round) {
        endpoint->report(na::EndpointEvent::PeerDied);
        if (round == 2) {  // found by the service thread in a device that shows nothing
            endpoint->set_shows_frames(false);
            const int before = sink.served;
            service_round();
            service_round();
            EXPECT_GT(sink.served, before);
            endpoint->set_shows_frames(true);
        } else {
            EXPECT_TRUE(vi->poll_frames(handle));
        }
        EXPECT_EQ(sink.breaks, round);
        EXPECT_EQ(state(), ua::ViState::Error);
        EXPECT_FALSE(vi->poll_frames(handle));
        EXPECT_EQ(vi->send_packet(handle, {}, 0), PacketOutcome::NotConnected);
        service_round();
        EXPECT_EQ(sink.breaks, round);
        ASSERT_TRUE(vi->disconnect(handle));
        EXPECT_EQ(sink.breaks, round);
        connect();
    }
}

TEST_F(ViSink, IsNotCalledAfterTheClose) {
    std::promise<void> inside;
    std::promise<void> go_on;
    std::atomic<bool> ended{false};
    sink.on_serve = [&] {
        if (ended) return true;  // once more before the closer comes
        inside.set_value();
        go_on.get_future().wait();
        ended = true;
        return true;
    };
    device().serves = true;
    arrive();
    nic->process().look_after();
    ASSERT_EQ(inside.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    std::thread closer([&] {
        EXPECT_TRUE(vi->force_close(handle));
        EXPECT_TRUE(ended) << "the close waits for the service thread";
        ua::vi_table().give_back(handle);
    });
    go_on.set_value();
    closer.join();
    const int before = sink.served;
    nic->process().look_after();
    settle_service();
    service_round();
    EXPECT_EQ(sink.served, before);
    EXPECT_EQ(vi->send_packet(handle, {}, 0), PacketOutcome::StaleHandle);
    EXPECT_EQ(vi->longest_packet(handle), 0U);
}

TEST_F(ViSink, MayCloseItsViWhenItIsServed) {
    std::promise<void> closed;
    sink.on_serve = [&] {
        EXPECT_TRUE(vi->force_close(handle));
        ua::vi_table().give_back(handle);
        closed.set_value();
        return true;
    };
    service_round();
    service_round();
    arrive();
    nic->process().service().post([this] { again = vi->progress(true); });
    ASSERT_EQ(closed.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    settle_service();
    EXPECT_EQ(sink.served, 1);
}

// ---- Through the shm device ---------------------------------------------------------------------

/// A VI with a sink on shm0. Frames come under the VI's lock; tests that look at the sink from
/// other threads use this one's own.
class ShmEnd : public na::FrameSink {
  public:
    void open(ua::Nic& nic, ka::ProtectionTag tag, ua::CompletionQueue* cq = nullptr) {
        nic_ = &nic;
        ka::EndpointAttributes attributes;
        attributes.max_transfer_bytes = 1 << 20;
        attributes.reliability = na::reliable_delivery;
        attributes.rights = 3;
        attributes.tag = tag;
        auto made = nic.create_vi(attributes, cq, cq, this);
        ASSERT_TRUE(made);
        handle = made.value();
        vi = ua::vi_table().find(reinterpret_cast<void*>(handle));
    }
    void request(const std::string& own, const std::string& other) {
        ASSERT_TRUE(vi->peer_request(handle, address(own), address(other), far()));
    }
    [[nodiscard]] bool connected() { return vi->peer_wait(handle).ok(); }

    PacketOutcome send(std::uint64_t number, std::uint64_t bytes) {
        std::vector<std::byte> payload(bytes);
        fill_pattern(payload, number);
        const iovec pieces[] = {{&number, sizeof number}, {payload.data(), bytes}};
        return vi->send_packet(handle, pieces, static_cast<std::uint32_t>(sizeof number + bytes));
    }
    bool frame(const na::FrameView& view) override {
        std::uint64_t number = 0;
        EXPECT_GE(view.length, sizeof number);
        std::memcpy(&number, view.data, sizeof number);
        EXPECT_EQ(number, next_.load()) << "in order";
        const std::size_t bytes = view.length - sizeof number;
        EXPECT_EQ(matching_bytes({view.data + sizeof number, bytes}, number), bytes);
        next_ = number + 1;
        return true;
    }
    bool serve() override {
        ++served;
        std::function<bool()> answer;
        {
            const std::lock_guard guard(mutex_);
            answer = on_serve_;
        }
        return answer && answer();
    }
    /// What serve() does from now on; the service thread may be about to call it.
    void when_served(std::function<bool()> answer) {
        const std::lock_guard guard(mutex_);
        on_serve_ = std::move(answer);
    }
    void broken() noexcept override { ++breaks; }
    [[nodiscard]] std::uint64_t received() const { return next_; }

    std::uint64_t handle = 0;
    ua::VirtualInterface* vi = nullptr;
    std::atomic<int> served{0};
    std::atomic<int> breaks{0};

  private:
    std::mutex mutex_;
    std::function<bool()> on_serve_;

    [[nodiscard]] ka::NetAddress address(const std::string& name) const {
        const na::NicAddress& host = nic_->device().attributes().address;
        ka::NetAddress result;
        result.host_bytes = static_cast<std::uint8_t>(host.size());
        std::copy(host.begin(), host.end(), result.host.begin());
        result.discriminator_bytes = static_cast<std::uint8_t>(name.size());
        std::copy(name.begin(), name.end(), result.discriminator.begin());
        return result;
    }
    ua::Nic* nic_ = nullptr;
    std::atomic<std::uint64_t> next_{0};
};

class ViShmSink : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = ua::Nic::open("shm0");
        ASSERT_TRUE(opened) << opened.error().sentence;
        nic = opened.value();
        tag = nic->create_tag().value();
    }
    void TearDown() override {
        if (nic) nic->close();
    }
    void connect(ua::CompletionQueue* cq_of_right = nullptr) {
        left.open(*nic, tag);
        right.open(*nic, tag, cq_of_right);
        left.request("left", "right");
        right.request("right", "left");
        ASSERT_TRUE(left.connected());
        ASSERT_TRUE(right.connected());
        ASSERT_TRUE(right.vi->shows_frames(right.handle));
    }
    ShmEnd left;
    ShmEnd right;
    std::shared_ptr<ua::Nic> nic;
    ka::ProtectionTag tag = 0;
};

TEST_F(ViShmSink, PacketsOfManyLengthsAndTwoPollingThreads) {
    connect();
    EXPECT_EQ(right.send(0, 100000), PacketOutcome::NoRoom) << "never";
    const std::uint32_t longest = left.vi->longest_packet(left.handle);
    ASSERT_GE(longest, 16384U + 16);
    const std::uint64_t count = repeated(20000);
    std::atomic<bool> stop{false};
    const auto poll = [&] {
        while (!stop)
            if (!right.vi->poll_frames(right.handle)) sched_yield();
    };
    std::thread one(poll);
    std::thread other(poll);
    Random random(3);
    std::uint64_t refused = 0;
    for (std::uint64_t number = 0; number < count; ++number) {
        const std::uint32_t bytes = random.one_in(10) ? random.below(longest - 8)
                                                      : random.below(random.one_in(3) ? 600 : 40);
        PacketOutcome outcome = PacketOutcome::NoRoom;
        ASSERT_TRUE(eventually([&] {
            outcome = left.send(number, bytes);
            refused += outcome == PacketOutcome::NoRoom;
            return outcome != PacketOutcome::NoRoom;
        }));
        ASSERT_EQ(outcome, PacketOutcome::Sent);
    }
    EXPECT_TRUE(eventually([&] { return right.received() == count; }));
    stop = true;
    one.join();
    other.join();
    EXPECT_EQ(right.breaks, 0);
}

TEST_F(ViShmSink, ThroughACompletionQueue) {
    auto made = nic->create_cq(16);
    ASSERT_TRUE(made);
    ua::CompletionQueue* cq = ua::cq_table().find(reinterpret_cast<void*>(made.value()));
    connect(cq);
    for (std::uint64_t number = 0; number < 1000; ++number) {
        ASSERT_EQ(left.send(number, number % 300), PacketOutcome::Sent);
        ua::CompletionEntry entry;
        ASSERT_TRUE(eventually([&] {
            EXPECT_FALSE(cq->poll_for_program(entry)) << "nothing completes";
            return right.received() == number + 1;
        }));
    }
}

TEST_F(ViShmSink, ServiceThreadAnswersForAProgramThatDoesNotPoll) {
    connect();
    // The service thread may serve it once more when the test is over.
    right.when_served([this, answered = std::make_shared<std::uint64_t>(0)] {
        while (right.vi->poll_frames(right.handle, PolledBy::Service)) {
        }
        while (*answered != right.received()) {
            if (right.send(*answered, *answered % 100) != PacketOutcome::Sent) return true;
            ++*answered;
        }
        return false;
    });
    const std::uint64_t count = repeated(2000);
    for (std::uint64_t number = 0; number < count; ++number) {
        ASSERT_EQ(left.send(number, number % 2000), PacketOutcome::Sent);
        ASSERT_TRUE(eventually([&] {
            left.vi->poll_frames(left.handle);
            return left.received() == number + 1;
        }));
    }
    EXPECT_GE(right.served, 1);
}

TEST_F(ViShmSink, HearsOfADisconnectWhetherOrNotItPolls) {
    for (const bool polls : {true, false}) {
        SCOPED_TRACE(polls);
        ShmEnd one;
        ShmEnd other;
        one.open(*nic, tag);
        other.open(*nic, tag);
        one.request("one", "other");
        other.request("other", "one");
        ASSERT_TRUE(one.connected());
        ASSERT_TRUE(other.connected());
        ASSERT_EQ(one.send(0, 1000), PacketOutcome::Sent);
        if (!polls)
            other.when_served([&] {
                while (other.vi->poll_frames(other.handle, PolledBy::Service)) {
                }
                return other.breaks == 0;
            });
        ASSERT_TRUE(one.vi->disconnect(one.handle));
        EXPECT_TRUE(eventually([&] {
            if (polls) other.vi->poll_frames(other.handle);
            return other.breaks == 1;
        }));
        EXPECT_EQ(other.received(), 1U) << "what was sent before the end comes before it";
        EXPECT_EQ(one.breaks, 0);
        for (ShmEnd* end : {&one, &other}) {
            ASSERT_TRUE(end->vi->disconnect(end->handle));
            ASSERT_TRUE(nic->destroy_vi(*end->vi, end->handle));
        }
        EXPECT_EQ(other.breaks, 1);
    }
}

#if !defined(__SANITIZE_THREAD__)
/// Another process that connects, sends until it is killed, and never polls.
TEST_F(ViShmSink, HearsOfTheDeathOfThePeer) {
    for (const bool polls : {true, false}) {
        SCOPED_TRACE(polls);
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            auto opened = ua::Nic::open("shm0");
            ShmEnd end;
            end.open(*opened.value(), opened.value()->create_tag().value());
            end.request("child", "parent");
            if (!end.connected()) _exit(1);
            for (std::uint64_t number = 0;; ++number)
                while (end.send(number, number % 500) != PacketOutcome::Sent)
                    usleep(100);
        }
        ShmEnd end;
        end.open(*nic, tag);
        end.request("parent", "child");
        EXPECT_TRUE(end.connected());
        if (!polls)
            end.when_served([&] {
                while (end.vi->poll_frames(end.handle, PolledBy::Service)) {
                }
                return end.breaks == 0;
            });
        EXPECT_TRUE(eventually([&] {
            if (polls) end.vi->poll_frames(end.handle);
            return end.received() > 1000;
        }));
        kill(child, SIGKILL);
        EXPECT_TRUE(eventually([&] {
            if (polls) end.vi->poll_frames(end.handle);
            return end.breaks == 1;
        }));
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(end.vi->disconnect(end.handle));
        ASSERT_TRUE(nic->destroy_vi(*end.vi, end.handle));
    }
}
#endif

}  // namespace
