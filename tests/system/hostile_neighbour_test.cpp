// SPDX-License-Identifier: BSD-3-Clause
// A victim between an honest partner and two enemies. One enemy connects as everybody does, then
// writes garbage into every shared page it can reach and asks for memory it was not granted; the
// other floods the kernel agent's socket. The victim must not crash, nothing but what was granted
// may change or be read, the partner's messages stay right, and the agent serves the next one.
// This is the victim; the others are hostile_enemy.cpp, agent_flooder.cpp and honest_partner.cpp.
//
// What the enemy could do with ptrace or process_vm_writev is outside the model: the system allows
// or forbids that, not this library.
//
//   HOSTILE_SEED   another sequence of attacks; --gtest_random_seed does the same
//   HOSTILE_BOUTS  how many connections the enemy makes (default below)
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ka/client.hpp"
#include "na/seeded.hpp"
#include "system/honest_partner.hpp"
#include "system/hostile_bout.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t default_bouts = 300;

VIP_MEM_ATTRIBUTES rights(VIP_PROTECTION_HANDLE tag, bool write, bool read) {
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = tag;
    attributes.EnableRdmaWrite = write ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead = read ? VIP_TRUE : VIP_FALSE;
    return attributes;
}

/// The victim's memory: regions between strips that belong to nobody, every byte of it known.
class Fortress {
  public:
    Fortress(Nic& nic, VIP_PROTECTION_HANDLE enemy, VIP_PROTECTION_HANDLE other)
        : nic_(nic), memory_(place_count * stride + strip) {
        fill_pattern(memory_, wall_stream);
        for (std::uint32_t place = 0; place < place_count; ++place) {
            Target& target = targets_[place];
            target.bytes = region_bytes;
            const bool foreign = place == OtherTag || place == OtherTagKmem;
            VIP_MEM_ATTRIBUTES attributes = rights(
                foreign ? other : enemy, place != ReadOnly && place != Closed, place != Closed);
            if (place == GrantedKmem || place == OtherTagKmem) {
                VIP_PVOID address = nullptr;
                must(VipxAllocMem(nic, region_bytes, &attributes, &address, &target.handle));
                target.address = reinterpret_cast<std::uint64_t>(address);
                fill_pattern(bytes_of(place), place);
                continue;
            }
            std::byte* start = memory_.data() + strip + place * stride;
            target.address = reinterpret_cast<std::uint64_t>(start);
            if (place != Unregistered)
                must(VipRegisterMem(nic, start, region_bytes, &attributes, &target.handle));
        }
        // A handle that is good, for an address that is not its own.
        targets_[Unregistered].handle = targets_[Granted].handle;
    }
    Fortress(const Fortress&) = delete;
    Fortress& operator=(const Fortress&) = delete;
    ~Fortress() {
        for (std::uint32_t place = 0; place < place_count; ++place) {
            auto* address = reinterpret_cast<void*>(targets_[place].address);
            if (place == GrantedKmem || place == OtherTagKmem) {
                EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic_, address, targets_[place].handle));
            } else if (place != Unregistered) {
                EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic_, address, targets_[place].handle));
            }
        }
    }

    [[nodiscard]] const std::array<Target, place_count>& targets() const { return targets_; }
    [[nodiscard]] std::span<std::byte> bytes_of(std::uint32_t place) const {
        return {reinterpret_cast<std::byte*>(targets_[place].address), targets_[place].bytes};
    }

    void expect_unharmed() const {
        EXPECT_EQ(matching_bytes(bytes_of(OtherTagKmem), OtherTagKmem), region_bytes);
        const std::size_t first = strip + Granted * stride;
        const std::span<const std::byte> all(memory_);
        EXPECT_EQ(matching_bytes(all.first(first), wall_stream), first);
        const std::size_t behind = first + region_bytes;
        EXPECT_EQ(matching_bytes(all.subspan(behind), wall_stream, behind), all.size() - behind);
    }

  private:
    static constexpr std::size_t strip = 1000;
    static constexpr std::size_t stride = region_bytes + strip;
    static constexpr std::uint64_t wall_stream = 77;
    static void must(VIP_RETURN code) {
        if (code != VIP_SUCCESS) throw std::runtime_error(VipxErrorText());
    }
    Nic& nic_;
    std::vector<std::byte> memory_;
    std::array<Target, place_count> targets_;
};

/// The victim's end of a connection to the enemy: it goes on using it as long as it can.
class ExposedEnd {
  public:
    ExposedEnd(Nic& nic, VIP_PROTECTION_HANDLE tag, const Bout& bout, VIP_CQ_HANDLE cq)
        : random_(bout.seed + 2),
          arena_(nic, {.bytes = 4U << 20, .tag = tag, .rdma_write = false, .rdma_read = false}),
          vi_(nic, {.level = bout.level, .tag = tag, .recv_cq = cq}),
          cq_(cq),
          reads_(nic.reads_at(bout.level)) {
        outgoing_ = arena_.take(longest_to_enemy);
        for (int i = 0; i < 32; ++i) {
            Receive receive;
            receive.capacity = random_.between(longest_from_enemy, 40000);
            receive.data = arena_.take(receive.capacity + 200, 1);
            std::memset(receive.data, 0x44, receive.capacity + 200);
            receive.descriptor = arena_.descriptor();
            const Segment part = arena_.segment(receive.data + 100, receive.capacity);
            fill(receive.descriptor, {&part, 1});
            EXPECT_VIP(VIP_SUCCESS, VipPostRecv(vi_, receive.descriptor, arena_.handle()));
            receives_.push_back(receive);
        }
        for (int i = 0; i < 16; ++i)
            free_sends_.push_back(arena_.descriptor());
    }

    [[nodiscard]] Vi& vi() { return vi_; }
    void knows(const Remote& remote) { remote_ = remote; }

    void tend() {
        if (cq_ != nullptr) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            if (VipCQDone(cq_, &vi, &receive) == VIP_SUCCESS) take_receive();
        } else {
            take_receive();
        }
        take_send();
        if (!broken_ && sent_ < most_to_enemy && !free_sends_.empty() && random_.one_in(4))
            send_something();
    }

    /// The enemy has had his turn: every descriptor is accounted for.
    void conclude() {
        const VIP_VI_STATE state = vi_.state();
        EXPECT_TRUE(state == VIP_STATE_CONNECTED || state == VIP_STATE_ERROR);
        EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi_));
        while (take_send()) {
        }
        while (take_receive()) {
        }
        EXPECT_TRUE(sends_.empty());
        EXPECT_EQ(received_, receives_.size());
        for (const Receive& receive : receives_) {
            EXPECT_TRUE(all_bytes_are(receive.data, 100, std::byte{0x44}));
            EXPECT_TRUE(all_bytes_are(receive.data + 100 + receive.capacity, 100, std::byte{0x44}));
        }
        if (cq_ != nullptr) {  // its entries belong to descriptors that have been taken
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            while (VipCQDone(cq_, &vi, &receive) == VIP_SUCCESS) {
            }
        }
    }

  private:
    struct Receive {
        std::byte* data = nullptr;
        std::uint32_t capacity = 0;
        VIP_DESCRIPTOR* descriptor = nullptr;
    };

    bool take_receive() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipRecvDone(vi_, &descriptor);
        if (descriptor == nullptr) return false;
        EXPECT_TRUE(code == VIP_SUCCESS || code == VIP_DESCRIPTOR_ERROR);
        if (received_ >= receives_.size()) {
            ADD_FAILURE() << "more receives than were posted";
            return false;
        }
        const Receive& receive = receives_[received_++];
        EXPECT_EQ(descriptor, receive.descriptor);
        // What an RDMA write with immediate data claims to have written is not in this buffer.
        if ((descriptor->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RECEIVE) {
            EXPECT_LE(descriptor->CS.Length, receive.capacity);
        }
        if (code != VIP_SUCCESS) broken_ = true;
        return true;
    }
    bool take_send() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipSendDone(vi_, &descriptor);
        if (descriptor == nullptr) return false;
        EXPECT_TRUE(code == VIP_SUCCESS || code == VIP_DESCRIPTOR_ERROR);
        if (sends_.empty()) {
            ADD_FAILURE() << "more sends than were posted";
            return false;
        }
        EXPECT_EQ(descriptor, sends_.front());
        sends_.pop_front();
        free_sends_.push_back(descriptor);
        if (code != VIP_SUCCESS) broken_ = true;
        return true;
    }
    void send_something() {
        VIP_DESCRIPTOR* descriptor = free_sends_.back();
        free_sends_.pop_back();
        const std::uint32_t bytes = random_.one_in(2)   ? random_.below(60)
                                    : random_.one_in(2) ? random_.below(5000)
                                                        : random_.below(longest_to_enemy);
        const Segment part = arena_.segment(outgoing_, bytes);
        const std::uint32_t way = random_.below(4);
        if (way < 2 || bytes > 1000)
            fill(descriptor, {&part, 1});
        else
            fill_rdma(descriptor, remote_, {&part, 1},
                      way == 2 && reads_ ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE);
        EXPECT_VIP(VIP_SUCCESS, VipPostSend(vi_, descriptor, arena_.handle()));
        sends_.push_back(descriptor);
        ++sent_;
    }

    Random random_;
    Arena arena_;
    Vi vi_;
    VIP_CQ_HANDLE cq_;
    bool reads_;
    bool broken_ = false;
    Remote remote_;
    std::byte* outgoing_ = nullptr;
    std::vector<Receive> receives_;
    std::size_t received_ = 0;
    int sent_ = 0;
    std::deque<VIP_DESCRIPTOR*> sends_;
    std::vector<VIP_DESCRIPTOR*> free_sends_;
};

/// Waits for a byte from another process while this one is busy.
class Listener {
  public:
    explicit Listener(const Link& link)
        : thread_([this, &link] {
              try {
                  static_cast<void>(link.get<std::uint8_t>());
              } catch (const std::exception& error) {
                  ADD_FAILURE() << error.what();
              }
              heard_.store(true);
          }) {}
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener() { thread_.join(); }
    [[nodiscard]] bool heard() const { return heard_.load(); }

  private:
    std::atomic<bool> heard_{false};
    std::thread thread_;
};

pid_t agent_pid() {
    auto client =
        ka::AgentClient::attach_if_running({}, base::Deadline::after_milliseconds(patience_ms));
    if (!client) return 0;
    auto status = client.value()->status();
    return status ? status.value().pid : 0;
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* given = std::getenv(variable);
    return given != nullptr && *given != '\0' ? std::strtoull(given, nullptr, 0) : otherwise;
}

class HostileNeighbour : public testing::Test {
  protected:
    /// One message each way with the honest partner, while the enemy rages.
    void talk(ExposedEnd* exposed) {
        const std::uint32_t number = spoken_++;
        honest_->post_receive(number);
        partner_->link.put<std::uint8_t>(1);
        honest_->speak(number, 2 * number, partner_window_);
        Completion heard;
        int sent = 0;
        ASSERT_TRUE(eventually([&] {
            if (exposed != nullptr) exposed->tend();
            VIP_DESCRIPTOR* done = nullptr;
            if (sent < 2 && VipSendDone(server_->end.vi, &done) == VIP_SUCCESS) ++sent;
            if (heard.descriptor == nullptr)
                heard.code = VipRecvDone(server_->end.vi, &heard.descriptor);
            return sent == 2 && heard.descriptor != nullptr;
        })) << "message "
            << number << ", " << sent << " sent";
        honest_->expect_heard(number, 2 * number + 1, heard);
    }

    std::unique_ptr<PeerProcess> partner_;
    std::unique_ptr<ServerEnd> server_;
    std::unique_ptr<HonestEnd> honest_;
    Remote partner_window_;
    std::uint32_t spoken_ = 0;
};

TEST_F(HostileNeighbour, HarmsNobody) {
    const auto chosen = static_cast<std::uint64_t>(testing::GTEST_FLAG(random_seed));
    const std::uint64_t seed = number_from("HOSTILE_SEED", chosen != 0 ? chosen : 1);
    const auto bouts = static_cast<std::uint32_t>(
        number_from("HOSTILE_BOUTS", std::max(12U, repeated(default_bouts))));
    std::printf("HOSTILE_SEED=%llu HOSTILE_BOUTS=%u\n", static_cast<unsigned long long>(seed),
                bouts);
    std::fflush(stdout);
    setenv("VIA_LOG", "silent", 0);

    partner_ = std::make_unique<PeerProcess>("honest_partner");
    server_ = std::make_unique<ServerEnd>(honest_pair);
    honest_ = std::make_unique<HonestEnd>(server_->end);
    server_->accept(partner_->link);
    partner_window_ = partner_->link.get<Remote>();
    partner_->link.put(Remote{honest_->window, server_->end.arena.handle()});
    Nic& nic = server_->nic;
    talk(nullptr);

    const pid_t agent = agent_pid();
    ASSERT_NE(agent, 0);
    const VIP_PROTECTION_HANDLE enemy_tag = make_tag(nic);
    const VIP_PROTECTION_HANDLE other_tag = make_tag(nic);
    const Fortress fortress(nic, enemy_tag, other_tag);
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 64, &cq));
    PeerProcess enemy("enemy");
    PeerProcess flooder("flooder");

    for (std::uint32_t i = 0; i < bouts && !HasFailure(); ++i) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", bout " + std::to_string(i));
        Random random(seed * 1000 + i);
        static constexpr VIP_RELIABILITY_LEVEL levels[] = {unreliable, reliable_delivery,
                                                           reliable_reception};
        Bout bout;
        bout.seed = random.next();
        bout.level = levels[i % 3];
        bout.attack =
            static_cast<Attack>(random.below(static_cast<std::uint32_t>(Attack::Last) + 1));
        bout.targets = fortress.targets();
        bout.address = Address(nic, unique_discriminator());
        ExposedEnd exposed(nic, enemy_tag, bout, random.one_in(2) ? cq : nullptr);
        flooder.link.put<std::uint32_t>(200);
        flooder.link.put(random.next());

        enemy.link.put(bout);
        Address remote;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipConnectWait(nic, bout.address.get(), patience_ms, remote.get(),
                                               &attributes, &connection));
        ASSERT_VIP(VIP_SUCCESS, VipConnectAccept(connection, exposed.vi()));
        enemy.link.put<std::uint8_t>(1);
        exposed.knows(enemy.link.get<Remote>());
        // As long as the enemy goes on, and a few more.
        const Listener listener(enemy.link);
        for (int after = 0; after < 4 && !HasFatalFailure(); after += listener.heard() ? 1 : 0)
            talk(&exposed);
        exposed.conclude();
        fortress.expect_unharmed();
        enemy.link.put<std::uint8_t>(1);
        static_cast<void>(flooder.link.get<std::uint8_t>());
    }
    Bout end_of_it;
    end_of_it.last = true;
    enemy.link.put(end_of_it);
    EXPECT_EQ(enemy.wait(), 0) << "the library failed in the enemy's own process";
    flooder.link.put<std::uint32_t>(0);
    EXPECT_EQ(flooder.wait(), 0);

    // The partner and the agent have noticed nothing, and somebody new is served.
    talk(nullptr);
    partner_->link.put<std::uint8_t>(0);
    EXPECT_EQ(partner_->wait(), 0);
    EXPECT_EQ(agent_pid(), agent) << "the agent has ended in between";
    PeerProcess newcomer("newcomer");
    {
        ServerEnd server(honest_pair);
        HonestEnd own(server.end);
        own.post_receive(5);
        server.accept(newcomer.link);
        const auto window = newcomer.link.get<Remote>();
        newcomer.link.put(Remote{own.window, server.end.arena.handle()});
        own.speak(5, 2, window);
        own.expect_heard(5, 1, server.end.vi.await_recv());
        newcomer.link.meet();
        EXPECT_EQ(newcomer.wait(), 0);
    }
    fortress.expect_unharmed();
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

}  // namespace
}  // namespace via::test
