// SPDX-License-Identifier: BSD-3-Clause
// The soak: two processes exchange seeded messages and RDMA on several VIs, both ways at once, and
// look at every byte, those around the targets too.
//
// A round is a plan that both processes draw from the same random numbers: who sends what from
// which pieces, where it has to arrive. All memory is a pattern of its place before the round;
// after it, it is what the plan says or still that pattern.
//
//   SOAK_SEED    another plan; --gtest_random_seed does the same. A failure names it.
//   SOAK_ROUNDS  how many rounds (default below). Each takes some 20 ms: 200000 soak an hour.
//
// VIA_SHM_PATH and the like choose the way data takes; CMakeLists.txt registers one test for each.
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "na/seeded.hpp"
#include "system/soak_failure.hpp"
#include "system/soak_lane.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t default_rounds = 160;
constexpr std::uint32_t rounds_of_a_session = 20;

struct Soak {
    std::uint64_t seed = 1;
    std::uint32_t rounds = 0;
};

/// Lanes that one thread looks after, together with all lanes of their completion queues.
class Worker {
  public:
    void add(Lane& lane) {
        lanes_.push_back(&lane);
        for (const VIP_CQ_HANDLE cq : {lane.send_cq(), lane.recv_cq()})
            if (cq != nullptr) queues_.insert(cq);
    }
    void add(const Worker& other) {
        for (Lane* lane : other.lanes_)
            add(*lane);
    }

    void run(std::uint64_t seed, bool blocking) {
        Random random(seed);
        const auto deadline = Clock::now() + patience;
        const bool greedy = random.one_in(2);
        for (unsigned turn = 0;; ++turn) {
            bool moved = false;
            bool all_posted = true;
            bool done = true;
            for (Lane* lane : lanes_) {
                std::uint32_t posts = greedy ? most_outstanding : random.below(4);
                for (; posts != 0 && lane->can_post(); --posts) {
                    lane->post_next();
                    moved = true;
                }
                if (lane->send_cq() == nullptr) moved |= lane->poll_send();
                if (lane->recv_cq() == nullptr) moved |= lane->poll_receive();
                all_posted = all_posted && lane->all_posted();
                done = done && lane->done();
            }
            if (done) return;
            for (const VIP_CQ_HANDLE cq : queues_) {
                VIP_VI_HANDLE vi = nullptr;
                VIP_BOOLEAN receive = VIP_FALSE;
                const VIP_RETURN code = VipCQDone(cq, &vi, &receive);
                if (code == VIP_NOT_DONE) continue;
                expect(VIP_SUCCESS, code, "VipCQDone");
                dispatch(vi, receive != VIP_FALSE);
                moved = true;
            }
            // Whoever waits for a receive must have sent what the other may be waiting for.
            if (!moved && blocking) block(random, all_posted);
            if (turn % 64 == 63) {
                if (Clock::now() > deadline) stop("too slow: " + standing());
                sched_yield();
            }
        }
    }

  private:
    void dispatch(VIP_VI_HANDLE vi, bool receive) {
        for (Lane* lane : lanes_) {
            if (static_cast<VIP_VI_HANDLE>(lane->vi()) != vi) continue;
            if (!(receive ? lane->poll_receive() : lane->poll_send()))
                stop("a completion queue told of a descriptor that is not done: " + standing());
            return;
        }
        stop("a completion queue told of a VI that is not its own");
    }

    void block(Random& random, bool all_posted) {
        const std::size_t first = random.below(static_cast<std::uint32_t>(lanes_.size()));
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            Lane& lane = *lanes_[(first + i) % lanes_.size()];
            const bool receives = lane.receives_pending() && all_posted;
            const bool receive_first = random.one_in(2);
            if (receives && (receive_first || !lane.sends_pending()))
                return wait(lane, lane.recv_cq(), true);
            if (lane.sends_pending()) return wait(lane, lane.send_cq(), false);
        }
    }
    void wait(Lane& lane, VIP_CQ_HANDLE cq, bool receive) {
        if (cq == nullptr) return receive ? lane.wait_receive() : lane.wait_send();
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        const VIP_RETURN code = VipCQWait(cq, patience_ms, &vi, &is_receive);
        if (code != VIP_SUCCESS)
            stop(std::string("VipCQWait: ") + VipxReturnName(code) + ": " + standing());
        dispatch(vi, is_receive != VIP_FALSE);
    }
    [[nodiscard]] std::string standing() const {
        std::string text;
        for (const Lane* lane : lanes_)
            text += "\n  " + lane->standing();
        return text;
    }

    std::vector<Lane*> lanes_;
    std::set<VIP_CQ_HANDLE> queues_;
};

class Queue {
  public:
    Queue(Nic& nic, VIP_ULONG entries) {
        expect(VIP_SUCCESS, VipCreateCQ(nic, entries, &handle_), "VipCreateCQ");
    }
    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue() { EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(handle_)); }
    [[nodiscard]] VIP_CQ_HANDLE get() const { return handle_; }

  private:
    VIP_CQ_HANDLE handle_ = nullptr;
};

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0,
                      std::uint64_t c = 0) {
    Random random(seed);
    for (const std::uint64_t part : {a, b, c})
        random = Random(random.next() + part);
    return random.next();
}

/// One process with its VIs, from the first connection to the last round.
class Session {
  public:
    Session(const Soak& soak, std::uint32_t number, bool server, Link& link)
        : seed_(seed_of(soak.seed, number)), server_(server), link_(link) {
        // What the ends must agree on, then what is this end's own affair.
        Random agreed(seed_);
        const std::uint32_t vis = agreed.between(3, 6);
        const std::uint32_t first_level = agreed.below(3);
        Random own(seed_of(seed_, server ? 1 : 2));
        const bool one_tag = own.one_in(2);
        VIP_PROTECTION_HANDLE tag = make_tag(nic_);
        for (std::uint32_t i = 0; i < vis; ++i) {
            if (!one_tag && i != 0) tag = make_tag(nic_);
            static constexpr VIP_RELIABILITY_LEVEL levels[] = {unreliable, reliable_delivery,
                                                               reliable_reception};
            ViOptions options{.level = levels[(first_level + i) % 3], .tag = tag};
            attach_queues(options, own);
            lanes_.push_back(std::make_unique<Lane>(nic_, options, i, own));
        }
        for (auto& lane : lanes_)
            connect(*lane);
        make_workers();
    }

    void run(std::uint32_t number, bool last) {
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            const std::uint64_t up = seed_of(seed_, 10 + number, i, 1);
            const std::uint64_t down = seed_of(seed_, 10 + number, i, 2);
            lanes_[i]->prepare(server_ ? up : down, server_ ? down : up);
        }
        link_.meet();
        Random own(seed_of(seed_, 10 + number, 1000, server_ ? 1 : 2));
        const bool threads = own.one_in(2);
        const bool blocking = own.one_in(2);
        if (threads) {
            run_threads(own, blocking);
        } else {
            Worker all;
            for (const Worker& worker : workers_)
                all.add(worker);
            all.run(own.next(), blocking);
        }
        link_.meet();
        for (auto& lane : lanes_)
            lane->check_and_restore(last);
        if (nic_.errors().count() != 0) stop("an asynchronous error was raised");
    }

  private:
    void attach_queues(ViOptions& options, Random& own) {
        // None, its own for receives, its own for both, the common one for receives or both.
        const std::uint32_t way = own.below(5);
        if (way == 0) return;
        if (way >= 3 && !common_) common_.emplace(nic_, own.one_in(2) ? 4 : 1024);
        if (way < 3) queues_.push_back(std::make_unique<Queue>(nic_, own.one_in(2) ? 1 : 256));
        options.recv_cq = way >= 3 ? common_->get() : queues_.back()->get();
        if (way == 2 || way == 4) options.send_cq = options.recv_cq;
    }

    void connect(Lane& lane) {
        if (server_) {
            Address local(nic_, unique_discriminator());
            link_.put(local);
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            expect(VIP_SUCCESS,
                   VipConnectWait(nic_, local.get(), patience_ms, remote.get(), &attributes,
                                  &connection),
                   "VipConnectWait");
            expect(VIP_SUCCESS, VipConnectAccept(connection, lane.vi()), "VipConnectAccept");
        } else {
            auto remote = link_.get<Address>();
            Address local(nic_, unique_discriminator());
            expect(VIP_SUCCESS, request_until_matched(lane.vi(), local, remote),
                   "VipConnectRequest");
        }
        link_.put(lane.exposed());
        lane.know_peer(link_.get<Exposed>());
    }

    void make_workers() {
        std::optional<std::size_t> common;
        for (auto& lane : lanes_) {
            const bool shares = common_ && lane->recv_cq() == common_->get();
            if (!shares || !common) {
                workers_.emplace_back();
                if (shares) common = workers_.size() - 1;
            }
            workers_[shares ? *common : workers_.size() - 1].add(*lane);
        }
    }

    void run_threads(Random& own, bool blocking) {
        std::mutex mutex;
        std::string failure;
        std::vector<std::thread> threads;
        for (Worker& worker : workers_)
            threads.emplace_back([&, seed = own.next()] {
                try {
                    worker.run(seed, blocking);
                } catch (const std::exception& error) {
                    const std::lock_guard lock(mutex);
                    if (failure.empty()) failure = error.what();
                }
            });
        for (auto& thread : threads)
            thread.join();
        if (!failure.empty()) stop(failure);
    }

    std::uint64_t seed_;
    bool server_;
    Link& link_;
    Nic nic_;
    std::optional<Queue> common_;
    std::vector<std::unique_ptr<Queue>> queues_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::vector<Worker> workers_;
};

void soak_one_side(const Soak& soak, bool server, Link& link) {
    std::uint32_t round = 0;
    for (std::uint32_t number = 0; round < soak.rounds; ++number) {
        try {
            Session session(soak, number, server, link);
            bool last = false;
            for (std::uint32_t i = 1; !last; ++i, ++round) {
                last = i == rounds_of_a_session || round + 1 == soak.rounds;
                session.run(round, last);
            }
            link.meet();  // nobody disconnects while the other still looks
        } catch (const std::exception& error) {
            stop("seed " + std::to_string(soak.seed) + ", round " + std::to_string(round) + ", " +
                 (server ? "server" : "client") + ": " + error.what());
        }
    }
}

PEER(soak_client) {
    const auto soak = link.get<Soak>();
    soak_one_side(soak, false, link);
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* given = std::getenv(variable);
    return given != nullptr && *given != '\0' ? std::strtoull(given, nullptr, 0) : otherwise;
}

TEST(Soak, EveryByteArrivesAndNoneElsewhere) {
    const auto chosen = static_cast<std::uint64_t>(testing::GTEST_FLAG(random_seed));
    Soak soak;
    soak.seed = number_from("SOAK_SEED", chosen != 0 ? chosen : 1);
    soak.rounds = static_cast<std::uint32_t>(number_from("SOAK_ROUNDS", repeated(default_rounds)));
    std::printf("soak: SOAK_SEED=%llu SOAK_ROUNDS=%u\n", static_cast<unsigned long long>(soak.seed),
                soak.rounds);
    std::fflush(stdout);
    PeerProcess peer("soak_client");
    peer.link.put(soak);
    try {
        soak_one_side(soak, true, peer.link);
    } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        peer.link.close();
    }
    EXPECT_EQ(peer.wait(), 0);
}

}  // namespace
}  // namespace via::test
