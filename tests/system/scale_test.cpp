// SPDX-License-Identifier: BSD-3-Clause
// Many at once: a thousand VIs between two processes, and a ring of 64 processes at one agent.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "system/observe.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

void must(const char* what, VIP_RETURN code) {
    if (code == VIP_SUCCESS) return;
    throw std::runtime_error(std::string(what) + ": " + VipxReturnName(code) + ", " +
                             VipxErrorText());
}

// ---- a thousand VIs -------------------------------------------------------------------------

constexpr std::uint32_t largest = 20'000;

std::uint32_t size_of(std::uint32_t number) {
    Random random(number);
    return static_cast<std::uint32_t>(random.below(random.below(2) == 0 ? 100 : largest + 1));
}

/// Many VIs that share a completion queue; each has a buffer and a receive.
class Bundle {
  public:
    explicit Bundle(std::uint32_t count)
        : tag_(make_tag(nic_)),
          arena_(nic_, {.bytes = count * std::size_t{largest + 512} + (1U << 16), .tag = tag_}) {
        must("VipCreateCQ", VipCreateCQ(nic_, 4 * count, &cq_));
        for (std::uint32_t i = 0; i < count; ++i) {
            ViOptions options{.tag = tag_};
            options.recv_cq = cq_;
            options.level = i % 3 == 0   ? unreliable
                            : i % 3 == 1 ? reliable_delivery
                                         : reliable_reception;
            Member member;
            member.vi = std::make_unique<Vi>(nic_, options);
            member.buffer = arena_.take(largest);
            member.receive = arena_.message(member.buffer, largest);
            member.send = arena_.descriptor();
            numbers_[*member.vi] = i;
            must("VipPostRecv", VipPostRecv(*member.vi, member.receive, arena_.handle()));
            members_.push_back(std::move(member));
        }
    }
    ~Bundle() {
        members_.clear();
        EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq_));
    }
    Bundle(const Bundle&) = delete;
    Bundle& operator=(const Bundle&) = delete;

    [[nodiscard]] Nic& nic() { return nic_; }
    [[nodiscard]] Vi& vi(std::uint32_t number) { return *members_[number].vi; }
    [[nodiscard]] std::byte* buffer(std::uint32_t number) { return members_[number].buffer; }
    void send(std::uint32_t number, std::uint32_t bytes) {
        Member& member = members_[number];
        const Segment part = arena_.segment(member.buffer, bytes);
        fill(member.send, {&part, 1});
        must("VipPostSend", VipPostSend(*member.vi, member.send, arena_.handle()));
        const Completion completion = member.vi->await_send();
        EXPECT_VIP(VIP_SUCCESS, completion.code);
        EXPECT_EQ(completion.descriptor, member.send);
    }
    void post(std::uint32_t number) {
        Member& member = members_[number];
        const Segment part = arena_.segment(member.buffer, largest);
        fill(member.receive, {&part, 1});
        must("VipPostRecv", VipPostRecv(*member.vi, member.receive, arena_.handle()));
    }
    /// The VI that has received next, and how much.
    [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> receive() {
        VIP_VI_HANDLE handle = nullptr;
        VIP_BOOLEAN is_receive = VIP_FALSE;
        must("VipCQWait", VipCQWait(cq_, patience_ms, &handle, &is_receive));
        EXPECT_EQ(is_receive, VIP_TRUE);
        const std::uint32_t number = numbers_.at(handle);
        VIP_DESCRIPTOR* done = nullptr;
        must("VipRecvDone", VipRecvDone(handle, &done));
        EXPECT_EQ(done, members_[number].receive);
        return {number, done->CS.Length};
    }

  private:
    struct Member {
        std::unique_ptr<Vi> vi;
        std::byte* buffer = nullptr;
        VIP_DESCRIPTOR* receive = nullptr;
        VIP_DESCRIPTOR* send = nullptr;
    };
    Nic nic_;
    VIP_PROTECTION_HANDLE tag_;
    Arena arena_;
    VIP_CQ_HANDLE cq_ = nullptr;
    std::vector<Member> members_;
    std::map<VIP_VI_HANDLE, std::uint32_t> numbers_;
};

/// Accepts them all, checks what comes over each and sends it back changed.
PEER(answer_on_many) {
    const auto count = link.get<std::uint32_t>();
    Bundle bundle(count);
    Address local(bundle.nic(), unique_discriminator());
    link.put(local);
    for (std::uint32_t i = 0; i < count; ++i) {
        Address remote;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        must("VipConnectWait", VipConnectWait(bundle.nic(), local.get(), patience_ms, remote.get(),
                                              &attributes, &connection));
        must("VipConnectAccept", VipConnectAccept(connection, bundle.vi(i)));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        const auto [number, bytes] = bundle.receive();
        EXPECT_EQ(bytes, size_of(number));
        EXPECT_TRUE(has_pattern(bundle.buffer(number), bytes, number)) << "VI " << number;
        fill_pattern(bundle.buffer(number), bytes, number + 1'000'000);
        bundle.send(number, bytes);
    }
    link.meet();
    link.meet();
}

TEST(Scale, AThousandVisBetweenTwoProcesses) {
    const std::uint32_t count = rounds(1000);
    // What a process keeps once it has used the library is there after this.
    { const Pair pair; }
    const pid_t agent = agent_status().pid;
    const std::size_t descriptors = open_descriptors(getpid());
    {
        PeerProcess child("answer_on_many");
        child.link.put(count);
        Bundle bundle(count);
        auto remote = child.link.get<Address>();
        for (std::uint32_t i = 0; i < count; ++i) {
            Address local(bundle.nic(), unique_discriminator());
            ASSERT_VIP(VIP_SUCCESS, request_until_matched(bundle.vi(i), local, remote));
        }
        EXPECT_EQ(own_entry(agent_status()).connections, count);
        // The number of descriptors does not grow with that of connections.
        EXPECT_LT(open_descriptors(getpid()), descriptors + 16);
        Random random(7);
        std::vector<std::uint32_t> order(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            order[i] = i;
            std::swap(order[i], order[random.below(i + 1)]);
        }
        std::vector<unsigned> answers(count, 0);
        const auto check_answer = [&] {
            const auto [number, bytes] = bundle.receive();
            ++answers[number];
            EXPECT_EQ(bytes, size_of(number));
            EXPECT_TRUE(has_pattern(bundle.buffer(number), bytes, number + 1'000'000))
                << "VI " << number;
        };
        for (std::uint32_t i = 0; i < count; ++i) {
            fill_pattern(bundle.buffer(order[i]), size_of(order[i]), order[i]);
            bundle.send(order[i], size_of(order[i]));
            if (i >= 100) check_answer();
        }
        for (std::uint32_t i = 0; i < std::min(count, 100U); ++i)
            check_answer();
        EXPECT_EQ(std::count(answers.begin(), answers.end(), 1U), count);
        child.link.meet();
        for (std::uint32_t i = 0; i < count; ++i)
            EXPECT_EQ(bundle.vi(i).state(), VIP_STATE_CONNECTED);
        child.link.meet();
        EXPECT_EQ(child.wait(), 0);
    }
    EXPECT_TRUE(eventually([] { return agent_holds_nothing(); }));
    EXPECT_EQ(open_descriptors(getpid()), descriptors);
    EXPECT_EQ(agent_status().pid, agent);
}

// ---- a ring of processes --------------------------------------------------------------------

struct Place {
    std::uint32_t number = 0;
    std::uint32_t count = 0;
    std::uint32_t ring = 0;  ///< tells this ring's addresses from others'
};

constexpr std::uint32_t ring_messages = 20;
constexpr std::uint32_t ring_largest = 40'000;

std::uint32_t ring_size(std::uint32_t process, std::uint32_t message) {
    Random random(process * 1000 + message);
    return static_cast<std::uint32_t>(random.below(random.below(2) == 0 ? 57 : ring_largest + 1));
}

Address ring_address(const Nic& nic, const Place& place, std::uint32_t number) {
    return {nic, "ring/" + std::to_string(place.ring) + "/" + std::to_string(number % place.count)};
}

PEER(stand_in_ring) {
    const auto place = link.get<Place>();
    Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    Arena arena(nic, {.bytes = (ring_messages + 1) * std::size_t{ring_largest + 512}, .tag = tag});
    Vi left(nic, {.tag = tag});
    Vi right(nic, {.tag = tag});
    std::vector<VIP_DESCRIPTOR*> receives;
    for (std::uint32_t i = 0; i < ring_messages; ++i) {
        receives.push_back(arena.message(arena.take(ring_largest), ring_largest));
        must("VipPostRecv", VipPostRecv(left, receives.back(), arena.handle()));
    }
    std::byte* source = arena.take(ring_largest);
    VIP_DESCRIPTOR* send = arena.descriptor();

    VIP_RETURN accepted = VIP_NOT_DONE;
    std::thread acceptor([&] {
        Address local = ring_address(nic, place, place.number);
        Address remote;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        accepted =
            VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes, &connection);
        if (accepted == VIP_SUCCESS) accepted = VipConnectAccept(connection, left);
    });
    Address next = ring_address(nic, place, place.number + 1);
    Address local(nic, unique_discriminator());
    const VIP_RETURN requested = request_until_matched(right, local, next);
    acceptor.join();
    must("VipConnectRequest", requested);
    must("VipConnectAccept", accepted);
    link.meet();  // all are connected
    link.meet();  // and have been counted
    for (std::uint32_t i = 0; i < ring_messages; ++i) {
        const std::uint32_t bytes = ring_size(place.number, i);
        fill_pattern(source, bytes, place.number * 1000 + i);
        const Segment part = arena.segment(source, bytes);
        fill(send, {&part, 1});
        must("VipPostSend", VipPostSend(right, send, arena.handle()));
        EXPECT_VIP(VIP_SUCCESS, right.await_send().code);
        const std::uint32_t neighbour = (place.number + place.count - 1) % place.count;
        VIP_DESCRIPTOR* done = nullptr;
        must("VipRecvWait", VipRecvWait(left, patience_ms, &done));
        EXPECT_EQ(done, receives[i]);
        EXPECT_EQ(done->CS.Length, ring_size(neighbour, i));
        const auto* data =
            reinterpret_cast<const std::byte*>(segments_of(done)[0].Local.Data.AddressBits);
        EXPECT_TRUE(has_pattern(data, done->CS.Length, neighbour * 1000 + i));
    }
    link.meet();  // nobody leaves while others still receive
}

TEST(Scale, ARingOf64ProcessesAtOneAgent) {
    const std::uint32_t count = std::max(4U, rounds(64));
    Nic nic;
    const pid_t agent = agent_status().pid;
    const std::size_t descriptors = open_descriptors(agent);
    for (std::uint32_t ring = 0; ring < 2; ++ring) {
        std::vector<std::unique_ptr<PeerProcess>> members;
        for (std::uint32_t i = 0; i < count; ++i) {
            members.push_back(std::make_unique<PeerProcess>("stand_in_ring"));
            members.back()->link.put(Place{i, count, ring});
        }
        for (auto& member : members)
            member->link.meet();
        const ka::AgentStatus status = agent_status();
        EXPECT_EQ(status.processes.size(), count + 1);
        std::uint32_t connections = 0;
        for (const ka::ProcessStatus& process : status.processes)
            connections += process.connections;
        EXPECT_EQ(connections, 2 * count);
        for (int stage = 0; stage < 2; ++stage)
            for (auto& member : members)
                member->link.meet();
        for (auto& member : members)
            EXPECT_EQ(member->wait(), 0);
    }
    EXPECT_TRUE(eventually([] { return agent_holds_nothing(); }));
    EXPECT_EQ(agent_status().pid, agent);
    EXPECT_TRUE(eventually([&] { return open_descriptors(agent) <= descriptors; }))
        << open_descriptors(agent) << " descriptors at the agent, " << descriptors << " before";
    EXPECT_EQ(processes_of_this_test(), std::vector<pid_t>{agent});
}

}  // namespace
}  // namespace via::test
