// SPDX-License-Identifier: BSD-3-Clause
// One end of a connection under load: sends, RDMA writes and reads, immediate data, each checked.
// Both ends run the same code; what the n-th message is follows from the plan, so the receiver
// knows what must be in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "system/observe.hpp"
#include "vipl/harness.hpp"

namespace via::test {

/// What a round does; the same at both ends.
struct Plan {
    std::uint64_t seed = 0;
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    std::uint32_t most_bytes[2] = {0, 0};  ///< of messages from the survivor, from the other
    bool kmem[2] = {false, false};
    bool queues = false;          ///< the survivor's completions come through a completion queue
    std::uint32_t messages = 0;   ///< how many each sends; 0: until the end
    bool other_may_lose = false;  ///< the other's connection may end before the other does
};

/// Where an end's memory is, for the other's RDMA.
struct SideAddresses {
    std::uint64_t source = 0;
    std::uint64_t slots = 0;
    std::uint64_t scratch = 0;
    VIP_MEM_HANDLE handle = 0;
};

class LoadedSide {
  public:
    static constexpr std::uint32_t window = 8;  ///< receives that are always posted
    static constexpr std::uint32_t sends = 6;   ///< most that are under way

    /// `index` 0 is the survivor.
    LoadedSide(const Plan& plan, unsigned index);
    LoadedSide(const LoadedSide&) = delete;
    LoadedSide& operator=(const LoadedSide&) = delete;
    ~LoadedSide();

    [[nodiscard]] Nic& nic() { return nic_; }
    [[nodiscard]] Vi& vi() { return *vi_; }
    [[nodiscard]] SideAddresses addresses() const;
    void know(const SideAddresses& other) { other_ = other; }
    /// Before connecting, so that no message finds an empty queue.
    void post_receives();

    /// Takes what is done and posts what may be posted.
    void step();
    /// The same without posting sends: waits once for a completion.
    void wait_once();
    /// From now on errors are expected.
    void expect_end() { end_expected_.store(true); }
    [[nodiscard]] bool broken() const { return broken_; }
    [[nodiscard]] bool finished() const {
        return sent_ == plan_.messages && received_ == plan_.messages && sending_.empty();
    }
    /// Completions so far; for whoever decides when the end comes.
    [[nodiscard]] std::uint64_t completed() const { return completed_.load(); }
    /// Everything still posted comes back now.
    void collect_all();
    [[nodiscard]] std::size_t outstanding() const { return sending_.size() + receiving_.size(); }
    /// Destroys, frees and closes; each must succeed.
    void take_down();

  private:
    struct Message {
        unsigned kind = 0;  ///< 0 send, 1 with immediate data, 2 RDMA write with immediate data
        std::uint32_t bytes = 0;
        std::uint32_t offset = 0;
        std::uint32_t immediate = 0;
    };
    struct Sending {
        VIP_DESCRIPTOR* descriptor = nullptr;
        std::uint32_t slot = 0;
        bool read = false;
        Message message;
    };
    [[nodiscard]] Message message(unsigned from, std::uint32_t number) const;
    void post_something();
    void post_message();
    void post_rdma();
    void post_receive(std::uint32_t slot);
    [[nodiscard]] VIP_DESCRIPTOR* descriptor(std::uint32_t index) const;
    /// A completion of the send or receive queue, as the library told it.
    void sent(VIP_RETURN code, VIP_DESCRIPTOR* done);
    void received(VIP_RETURN code, VIP_DESCRIPTOR* done);
    /// Whether a receive holds the other's message of this number.
    [[nodiscard]] bool is_message(std::uint32_t number, std::uint32_t slot,
                                  const VIP_DESCRIPTOR& done) const;
    void judge_error(const VIP_DESCRIPTOR* done, const char* what);
    [[nodiscard]] bool take_one();

    Plan plan_;
    unsigned index_;
    Random random_;
    Nic nic_;
    VIP_PROTECTION_HANDLE tag_ = nullptr;
    VIP_CQ_HANDLE cq_ = nullptr;
    std::optional<Vi> vi_;
    std::uint32_t own_bytes_;    ///< largest of my messages
    std::uint32_t other_bytes_;  ///< largest of the other's
    std::size_t bytes_ = 0;
    std::byte* base_ = nullptr;
    VIP_MEM_HANDLE handle_ = 0;
    std::byte* source_ = nullptr;    // what I send and let read
    std::byte* receive_ = nullptr;   // a buffer for each receive
    std::byte* slots_ = nullptr;     // where RDMA writes with immediate data go
    std::byte* scratch_ = nullptr;   // where other RDMA writes go
    std::byte* read_to_ = nullptr;   // a buffer for each send that is a read
    std::vector<std::byte> others_;  // what the other sends
    SideAddresses other_;
    std::uint32_t sent_ = 0;
    std::uint32_t received_ = 0;
    std::deque<Sending> sending_;
    std::deque<std::uint32_t> receiving_;
    std::vector<std::uint32_t> free_slots_;
    std::atomic<bool> end_expected_{false};
    bool broken_ = false;
    std::atomic<std::uint64_t> completed_{0};
};

/// Connects the two ends, each with the test between them at the other end of its link: addresses
/// of the memory go both ways, then that of the server to the client.
void connect_as_server(Link& link, LoadedSide& side,
                       const std::string& discriminator = unique_discriminator());
void connect_as_client(Link& link, LoadedSide& side,
                       const std::string& discriminator = unique_discriminator());

// The role "bear_load": the end that is killed, or (with a number of messages in the plan) the one
// that is not. It gets the plan and connects as the client.

}  // namespace via::test
