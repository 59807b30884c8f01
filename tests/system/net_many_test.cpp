// SPDX-License-Identifier: BSD-3-Clause
// Two hundred connections between two hosts, all of which carry data at once, both ways.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "system/lab_hosts.hpp"
#include "system/observe.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t largest = 60'000;

struct Crowding {
    std::uint32_t connections = 0;
    std::uint32_t turns = 0;
    bool server = false;
};

void must_succeed(const char* what, VIP_RETURN code) {
    if (code == VIP_SUCCESS) return;
    throw std::runtime_error(std::string(what) + ": " + VipxReturnName(code) + ", " +
                             VipxErrorText());
}

std::uint32_t size_of(std::uint32_t seed) {
    Random random(seed);
    return static_cast<std::uint32_t>(random.below(random.below(2) == 0 ? 100 : largest + 1));
}

/// One end of them all, with one completion queue.
class Crowd {
  public:
    explicit Crowd(const Crowding& crowding)
        : crowding_(crowding),
          tag_(make_tag(nic_)),
          arena_(nic_,
                 {.bytes = crowding.connections * std::size_t{2 * largest + 1024} + (1U << 16),
                  .tag = tag_}) {
        must_succeed("VipCreateCQ", VipCreateCQ(nic_, 8 * crowding.connections, &cq_));
        for (std::uint32_t i = 0; i < crowding.connections; ++i) {
            Member member;
            ViOptions options{.tag = tag_, .send_cq = cq_, .recv_cq = cq_};
            options.level = i % 2 == 0 ? reliable_delivery : reliable_reception;
            member.vi = std::make_unique<Vi>(nic_, options);
            member.target = arena_.take(largest);
            member.source = arena_.take(largest);
            member.receive = arena_.descriptor();
            member.send = arena_.descriptor();
            numbers_[*member.vi] = i;
            members_.push_back(std::move(member));
            post_receive(i);
        }
    }
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;
    ~Crowd() {
        members_.clear();  // one after the other, from the first
        EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq_));
    }

    void connect(Link& link) {
        // Both find each other by the number of the connection.
        Address place(nic_, unique_discriminator());
        if (crowding_.server) link.put(place);
        Address remote = crowding_.server ? Address() : link.get<Address>();
        for (const Member& member : members_) {
            if (crowding_.server) {
                VIP_VI_ATTRIBUTES attributes{};
                VIP_CONN_HANDLE connection = nullptr;
                must_succeed("VipConnectWait",
                             VipConnectWait(nic_, place.get(), patience_ms, remote.get(),
                                            &attributes, &connection));
                must_succeed("VipConnectAccept", VipConnectAccept(connection, *member.vi));
            } else {
                Address local(nic_, unique_discriminator());
                must_succeed("VipConnectRequest", request_until_matched(*member.vi, local, remote));
            }
        }
    }
    /// A message on each, posted one after the other without a look at what has become of those
    /// before, and one from the other end.
    void take_turn(std::uint32_t turn) {
        for (std::uint32_t i = 0; i < members_.size(); ++i) {
            const std::uint32_t seed = seed_of(i, turn, crowding_.server);
            const Segment part = arena_.segment(members_[i].source, size_of(seed));
            fill_pattern(members_[i].source, part.bytes, seed);
            fill(members_[i].send, {&part, 1});
        }
        for (const Member& member : members_)
            must_succeed("VipPostSend", VipPostSend(*member.vi, member.send, arena_.handle()));
        std::vector<int> sent(members_.size(), 0);
        std::vector<int> received(members_.size(), 0);
        for (std::size_t done = 0; done < 2 * members_.size(); ++done) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN is_receive = VIP_FALSE;
            must_succeed("VipCQWait", VipCQWait(cq_, patience_ms, &vi, &is_receive));
            const std::uint32_t i = numbers_.at(vi);
            VIP_DESCRIPTOR* descriptor = nullptr;
            if (is_receive == VIP_FALSE) {
                must_succeed("VipSendDone", VipSendDone(vi, &descriptor));
                EXPECT_EQ(descriptor, members_[i].send);
                ++sent[i];
                continue;
            }
            must_succeed("VipRecvDone", VipRecvDone(vi, &descriptor));
            EXPECT_EQ(descriptor, members_[i].receive);
            const std::uint32_t seed = seed_of(i, turn, !crowding_.server);
            EXPECT_EQ(descriptor->CS.Length, size_of(seed));
            EXPECT_TRUE(has_pattern(members_[i].target, size_of(seed), seed))
                << "connection " << i << ", turn " << turn;
            ++received[i];
            post_receive(i);
        }
        EXPECT_EQ(sent, std::vector<int>(members_.size(), 1));
        EXPECT_EQ(received, std::vector<int>(members_.size(), 1));
    }
    /// In order, while the other end looks on.
    void disconnect() {
        for (const Member& member : members_)
            EXPECT_VIP(VIP_SUCCESS, VipDisconnect(*member.vi));
    }
    void see_them_end() {
        for (const Member& member : members_)
            EXPECT_TRUE(member.vi->becomes(VIP_STATE_ERROR));
    }

  private:
    struct Member {
        std::unique_ptr<Vi> vi;
        std::byte* target = nullptr;
        std::byte* source = nullptr;
        VIP_DESCRIPTOR* receive = nullptr;
        VIP_DESCRIPTOR* send = nullptr;
    };
    [[nodiscard]] static std::uint32_t seed_of(std::uint32_t connection, std::uint32_t turn,
                                               bool from_server) {
        return (turn * 10'000 + connection) * 2 + (from_server ? 1 : 0);
    }
    void post_receive(std::uint32_t number) {
        const Member& member = members_[number];
        const Segment part = arena_.segment(member.target, largest);
        fill(member.receive, {&part, 1});
        must_succeed("VipPostRecv", VipPostRecv(*member.vi, member.receive, arena_.handle()));
    }

    Crowding crowding_;
    Nic nic_;
    VIP_PROTECTION_HANDLE tag_;
    Arena arena_;
    VIP_CQ_HANDLE cq_ = nullptr;
    std::vector<Member> members_;
    std::map<VIP_VI_HANDLE, std::uint32_t> numbers_;
};

PEER(stand_in_crowd) {
    // A few at first: what a process keeps once it has used the library is there after them.
    for (int crowd_number = 0; crowd_number < 2; ++crowd_number) {
        const auto crowding = link.get<Crowding>();
        {
            Crowd crowd(crowding);
            crowd.connect(link);
            for (std::uint32_t turn = 0; turn < crowding.turns; ++turn) {
                link.meet();  // the other end has a receive for each
                crowd.take_turn(turn);
            }
            link.meet();
            if (crowding.server)
                crowd.see_them_end();
            else
                crowd.disconnect();
            link.meet();
        }
        link.meet();
    }
}

class NetMany : public LabHosts {};

TEST_F(NetMany, TwoHundredConnectionsAtOnce) {
    make();
    const std::unique_ptr<PeerProcess> client = a->start("stand_in_crowd");
    const std::unique_ptr<PeerProcess> server = b->start("stand_in_crowd");
    // Neither goes on before both are there; `look` sees them stand still.
    const auto meet_both = [&](const std::function<void()>& look = [] {}) {
        for (const auto* one : {client.get(), server.get()})
            static_cast<void>(one->link.get<std::uint8_t>());
        look();
        for (const auto* one : {client.get(), server.get()})
            one->link.put<std::uint8_t>(1);
    };
    const auto descriptors = [&] {
        return std::vector<std::size_t>{open_descriptors(client->pid()),
                                        open_descriptors(server->pid())};
    };
    std::vector<std::size_t> few;
    for (const std::uint32_t connections : {3U, std::max(50U, rounds(200))}) {
        Crowding crowding;
        crowding.connections = connections;
        crowding.turns = 4;
        client->link.put(crowding);
        crowding.server = true;
        server->link.put(crowding);
        pass<Address>(*server, *client);
        for (std::uint32_t turn = 0; turn < crowding.turns; ++turn) {
            meet_both();
            if (turn != 0) continue;
            for (LabHost* host : {a.get(), b.get()}) {
                const ka::AgentStatus status = host->agent();
                ASSERT_EQ(status.processes.size(), 1U);
                EXPECT_EQ(status.processes[0].connections, connections);
            }
        }
        std::vector<std::size_t> used;
        meet_both([&] { used = descriptors(); });
        meet_both();
        // All is destroyed, and the sockets are closed when they have said goodbye.
        for (LabHost* host : {a.get(), b.get()})
            EXPECT_TRUE(eventually([&] { return host->agent_holds_nothing(); }));
        if (few.empty()) {
            EXPECT_TRUE(eventually([&] {
                few = descriptors();
                return few[0] + 6 <= used[0] && few[1] + 6 <= used[1];
            }));
        }
        EXPECT_TRUE(eventually([&] {
            const std::vector<std::size_t> now = descriptors();
            return now[0] <= few[0] && now[1] <= few[1];
        })) << testing::PrintToString(descriptors())
            << " descriptors are open, after few connections " << testing::PrintToString(few);
        meet_both();
    }
    EXPECT_EQ(client->wait(), 0);
    EXPECT_EQ(server->wait(), 0);
    for (LabHost* host : {a.get(), b.get()})
        EXPECT_TRUE(eventually([&] { return host->agent().processes.empty(); }));
}

}  // namespace
}  // namespace via::test
