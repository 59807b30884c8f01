// SPDX-License-Identifier: BSD-3-Clause
// Streams between two hosts over links that lose packets, are cut, flap and fall silent: what
// arrives is what was sent, and it goes on arriving.
#include <sys/types.h>
#include <time.h>

#include <cstdlib>
#include <functional>
#include <iostream>

#include "counters_snapshot.hpp"
#include "system/checked_stream.hpp"
#include "system/lab_hosts.hpp"

namespace via::test {
namespace {

constexpr base::Nanoseconds millisecond = 1'000'000;

void pause_for(unsigned milliseconds) {
    const timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1'000'000};
    nanosleep(&time, nullptr);
}

/// A stream from host a to host b.
class Stream {
  public:
    Stream(LabHost& from, LabHost& to, const StreamTask& task)
        : sender_(from.start("send_stream")), taker_(to.start("take_stream")) {
        sender_->link.put(task);
        taker_->link.put(task);
        pass<Address>(*taker_, *sender_);
        sender_->link.meet();
        taker_->link.meet();
    }
    /// To its end, but for closing.
    void finish() {
        for (bool sends = true, takes = true; sends || takes;) {
            if (sends) sends = sender_->link.get<std::uint8_t>() == 0;
            if (takes) takes = taker_->link.get<std::uint8_t>() == 0;
        }
        sent = sender_->link.get<StreamSent>();
        taken = taker_->link.get<StreamTaken>();
    }
    void close() {
        sender_->link.meet();
        taker_->link.meet();
        EXPECT_EQ(sender_->wait(), 0);
        EXPECT_EQ(taker_->wait(), 0);
    }
    [[nodiscard]] pid_t sender() const { return sender_->pid(); }
    StreamSent sent;
    StreamTaken taken;

  private:
    std::unique_ptr<PeerProcess> sender_;
    std::unique_ptr<PeerProcess> taker_;
};

/// Far more than a stream needs to move to the other link, and to go on when it has none.
constexpr base::Nanoseconds longest_pause = 5'000 * millisecond;

class NetStream : public LabHosts {
  protected:
    /// Streams while `trouble` goes on.
    void stream_under(const char* what, unsigned milliseconds,
                      const std::function<void()>& trouble) {
        SCOPED_TRACE(what);
        StreamTask task;
        task.milliseconds = milliseconds;
        task.bytes = std::uint64_t{rounds(16)} << 20;  // and it gets somewhere, however slowly
        Stream stream(*a, *b, task);
        trouble();
        stream.finish();
        stream.close();
        EXPECT_EQ(stream.taken.bytes, stream.sent.bytes);
        EXPECT_EQ(stream.taken.missing, 0U);
        EXPECT_LT(stream.taken.longest_pause, longest_pause);
        std::cout << what << ": " << (stream.taken.bytes >> 20) << " MB checked, longest pause "
                  << static_cast<double>(stream.taken.longest_pause) / 1e6 << " ms\n";
    }

    /// What tools see of the packets of a process.
    struct Packets {
        std::uint64_t sent = 0;
        std::uint64_t lost = 0;
    };
    static Packets packets(LabHost& host, pid_t process) {
        Packets counted;
        host.run([&] {
            auto client = ka::AgentClient::attach_if_running(
                {}, base::Deadline::after_milliseconds(patience_ms));
            ASSERT_TRUE(client.ok());
            auto file = client.value()->counters_of(process);
            ASSERT_TRUE(file.ok()) << file.error().sentence;
            const auto counters = tool::read_counters(file.value());
            ASSERT_TRUE(counters.ok()) << counters.error().sentence;
            for (const tool::LinkSnapshot& one : counters.value().links) {
                counted.sent += one.sent_packets;
                counted.lost += one.lost_packets;
            }
        });
        return counted;
    }
};

/// How much goes through each level: NET_STREAM_MEGABYTES, for those who have time.
std::uint64_t megabytes() {
    const char* given = std::getenv("NET_STREAM_MEGABYTES");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : rounds(32);
}

class NetLoss : public NetStream, public testing::WithParamInterface<VIP_RELIABILITY_LEVEL> {};

TEST_P(NetLoss, EveryByteIsRightThoughPacketsAreLost) {
    make();
    for (unsigned number = 0; number < 2; ++number) {
        // Chance meets every packet, not every train of them.
        EXPECT_DONE(link(number).offload(false));
        EXPECT_DONE(link(number).loss(10'000));
    }
    StreamTask task;
    task.level = GetParam();
    task.bytes = megabytes() << 20;
    // So short that most of the unreliable ones come through.
    task.message_bytes = task.level == unreliable ? 8192 : 100'000;
    Stream stream(*a, *b, task);
    stream.finish();
    // A process shows what it has counted now and then: until all that was sent is among it.
    constexpr std::uint64_t longest_packet = 1500;
    const base::Deadline deadline = base::Deadline::after_milliseconds(patience_ms);
    Packets counted = packets(*a, stream.sender());
    while (counted.sent * longest_packet < stream.sent.bytes && !deadline.expired()) {
        pause_for(20);
        counted = packets(*a, stream.sender());
    }
    stream.close();
    EXPECT_GE(stream.sent.bytes, task.bytes);
    EXPECT_GT(counted.lost, 0U);
    // One in a hundred, with what chance adds to it, and what was given up too early.
    EXPECT_GT(counted.lost * 1000, counted.sent);
    EXPECT_LT(counted.lost * 5, counted.sent);
    if (task.level == unreliable) {
        EXPECT_GT(stream.taken.missing, 0U);
        EXPECT_GT(stream.taken.messages, stream.sent.messages / 2);
    } else {
        EXPECT_EQ(stream.taken.bytes, stream.sent.bytes);
        EXPECT_EQ(stream.taken.missing, 0U);
    }
    std::cout << level_name(task.level) << ": " << (stream.taken.bytes >> 20) << " MB checked in "
              << static_cast<double>(stream.sent.time) / 1e9 << " s; " << counted.lost << " of "
              << counted.sent << " packets lost, " << stream.taken.missing << " of "
              << stream.sent.messages << " messages missing\n";
}
INSTANTIATE_EACH_LEVEL(NetLoss);

class NetCuts : public NetStream {
  protected:
    void SetUp() override {
        NetStream::SetUp();
        if (IsSkipped()) return;
        make();
        for (unsigned number = 0; number < 2; ++number)
            EXPECT_DONE(link(number).rate(400'000'000));
    }
};

TEST_F(NetCuts, OneDirectionOnly) {
    for (const char* from : {"a", "b"})
        stream_under((std::string("nothing from ") + from + " passes on link 0").c_str(), 1500,
                     [&] {
                         pause_for(200);
                         EXPECT_DONE(link(0).silent(true, from));
                         pause_for(600);
                         EXPECT_DONE(link(0).silent(false, from));
                     });
}

TEST_F(NetCuts, ALinkThatFlaps) {
    stream_under("link 1 flaps", 2000, [&] {
        for (int i = 0; i < 6; ++i) {
            EXPECT_DONE(link(1).down("b"));
            pause_for(100);
            EXPECT_DONE(link(1).up("b"));
            pause_for(100);
        }
    });
}

TEST_F(NetCuts, SilenceAndLossInTurn) {
    stream_under("links fall silent and lose packets in turn", 2500, [&] {
        for (unsigned i = 0; i < 4; ++i) {
            EXPECT_DONE(link(i % 2).silent(true));
            pause_for(200);
            EXPECT_DONE(link(i % 2).silent(false));
            EXPECT_DONE(link(i % 2).loss(50'000));
            pause_for(200);
            EXPECT_DONE(link(i % 2).loss(0));
        }
    });
}

/// Shorter than what counts as lost, the only way may be gone altogether.
TEST_F(NetCuts, BothLinksForAMoment) {
    stream_under("both links are gone for half a second", 1500, [&] {
        pause_for(200);
        for (unsigned number = 0; number < 2; ++number)
            EXPECT_DONE(link(number).silent(true));
        pause_for(500);
        for (unsigned number = 0; number < 2; ++number)
            EXPECT_DONE(link(number).silent(false));
    });
}

/// Long packets come through no more, and nobody says so; later they do again.
TEST_F(NetStream, APathThatBecomesShorter) {
    make({.mtu = 9000});
    for (unsigned number = 0; number < 2; ++number) {
        EXPECT_DONE(link(number).offload(false));
        EXPECT_DONE(link(number).rate(400'000'000));
    }
    stream_under("packets over 1500 bytes are dropped for a while", 2500, [&] {
        pause_for(300);
        for (LabHost* host : {a.get(), b.get()})
            host->filter_input("ip length > 1500 drop");
        pause_for(1000);
        for (LabHost* host : {a.get(), b.get()})
            host->stop_filtering();
    });
}

/// The same where the interfaces themselves get another MTU while the stream runs.
TEST_F(NetStream, InterfacesThatBecomeShorter) {
    make({.mtu = 9000});
    for (unsigned number = 0; number < 2; ++number)
        EXPECT_DONE(link(number).rate(400'000'000));
    stream_under("the interfaces carry 1400 bytes instead of 9000", 2000, [&] {
        for (const unsigned bytes : {1400U, 9000U, 1300U}) {
            pause_for(300);
            for (unsigned number = 0; number < 2; ++number)
                EXPECT_DONE(link(number).mtu(bytes));
        }
    });
}

}  // namespace
}  // namespace via::test
