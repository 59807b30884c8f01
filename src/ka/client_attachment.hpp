// SPDX-License-Identifier: BSD-3-Clause
// A process's attachment to the kernel agent: what it asks, what it waits for, what it holds. Any
// thread may ask; whoever waits reads for all. client.cpp makes the attachment, client_reading.cpp
// reads and sends, client_memory.cpp asks for memory, client_connecting.cpp for connections,
// client_news.cpp has what the agent says unasked, and what people ask.
#pragma once

#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/undo.hpp"
#include "ka/client.hpp"
#include "ka/conversation.hpp"
#include "ka/descriptors.hpp"
#include "ka/holdings.hpp"
#include "ka/pin_ledger.hpp"
#include "ka/protocol.hpp"

namespace via::ka::attachment {

using base::Code;
using base::Deadline;
using base::Error;
using base::LogLevel;
using base::Nanoseconds;
using base::Result;
using base::UniqueFd;

using Lock = std::unique_lock<std::mutex>;

/// For waits of the standard library.
[[nodiscard]] std::chrono::steady_clock::time_point time_point(Deadline deadline);

/// A question that waits for its answer.
struct Slot {
    enum class State { Waiting, Answered, Lost, Cancelled, NoMemory };
    State state = State::Waiting;
    std::condition_variable changed;
    const void* owner = nullptr;  // connection waits only: who may cancel
    std::optional<AgentMessage> message;
    /// Runs when the answer is read, in the order of the answers, under the client's lock: what the
    /// process holds is in the books before a change of agent can be noticed.
    std::function<void(AgentMessage&)> on_answer;

    // Peer requests only; they outlive the call that made them.
    ConnectOffer offer;
    Deadline deadline = Deadline::never();
    std::optional<Error> failure;
    std::shared_ptr<base::FdList> peer_fds;  // of the process at the other end
};

class Client final : public AgentClient {
  public:
    Client(const ProcessResources& resources, bool may_start)
        : resources_(resources),
          may_start_(may_start),
          observer_(resources.doorbell_memory < 0 && resources.doorbell_event < 0 &&
                    resources.counters < 0),
          process_id_(getpid()),
          answer_time_(
              static_cast<Nanoseconds>(base::Settings::get().number("VIA_AGENT_TIMEOUT_MS")) *
              1'000'000),
          pins_memory_(base::Settings::get().flag("VIA_PIN_MEMORY")) {
        [[maybe_unused]] const ssize_t filled = getrandom(&instance_, sizeof instance_, 0);
    }
    ~Client() override;

    [[nodiscard]] Result<void> start(Deadline deadline);

    std::uint16_t net_port() const noexcept override {
        return net_port_.load(std::memory_order_relaxed);
    }
    RmmtView rmmt() const noexcept override {
        return RmmtView(reinterpret_cast<const RmmtEntry*>(table_.data()));
    }
    std::uint32_t rmmt_epoch() const noexcept override {
        return epoch_.load(std::memory_order_acquire);
    }
    Result<MemoryHandle> register_memory(const void* address, std::uint64_t bytes,
                                         ProtectionTag tag, std::uint32_t rights) override;
    Result<void> deregister_memory(MemoryHandle handle) override;
    Result<void> change_memory(MemoryHandle handle, ProtectionTag tag,
                               std::uint32_t rights) override;
    Result<KmemBlock> allocate_kmem(std::uint64_t bytes, ProtectionTag tag) override;
    Result<void> free_kmem(const void* address) override;
    void abandon_kmem(const void* address) noexcept override;
    Result<std::uint32_t> create_vi() override;
    void destroy_vi(std::uint32_t vi) noexcept override;
    void disconnected(std::uint64_t connection) noexcept override;
    Result<IncomingRequest> connect_wait(const NetAddress& local, Deadline deadline,
                                         const void* owner, std::uint32_t fabrics) override;
    void cancel_waits(const void* owner) noexcept override;
    Result<Established> connect_accept(std::uint64_t request, const ConnectOffer& offer,
                                       Deadline deadline) override;
    Result<void> connect_reject(std::uint64_t request) override;
    Result<Established> connect_request(const ConnectOffer& offer, Deadline deadline) override;
    Result<std::uint64_t> peer_request(const ConnectOffer& offer, Deadline deadline) override;
    std::optional<Result<Established>> peer_poll(std::uint64_t request) override;
    Result<Established> peer_wait(std::uint64_t request) override;
    void peer_cancel(std::uint64_t request) noexcept override;
    Result<ArenaGrant> peer_arena(std::uint64_t connection, std::uint32_t arena) override;
    Result<RmmtGrant> peer_rmmt(std::uint64_t connection) override;
    Result<Region> translate(MemoryHandle handle) override;
    std::vector<std::uint64_t> lost_connections() override;
    bool is_lost(std::uint64_t connection) override;
    std::vector<LinkPolicyWish> link_policy_wishes() override;
    Result<AgentStatus> status() override;
    Result<UniqueFd> counters_of(std::int32_t pid) override;
    Result<void> wish_link_policy(std::int32_t pid, const LinkPolicyWish& wish) override;
    Result<void> stop_agent() override;
    int socket() const noexcept override { return watch_.get(); }
    bool attached() const noexcept override;
    bool reattach_if_running() noexcept override;

  private:
    [[nodiscard]] bool forked() const noexcept { return getpid() != process_id_; }
    [[nodiscard]] static Error fork_error() {
        return Error{Code::InvalidState,
                     "the attachment to the kernel agent belongs to the process that made it; "
                     "after fork() open the NIC again in the child"};
    }
    /// The agent lives in real time, also for those who do not.
    [[nodiscard]] Deadline answer_deadline() const {
        return Deadline::at(base::machine_now() + answer_time_);
    }

    // Attaching. The lock is given up while it goes on.
    [[nodiscard]] Result<void> ensure_attached(Lock& lock, bool may_start, Deadline deadline);
    [[nodiscard]] Result<void> make_attachment(bool may_start, Deadline deadline);
    [[nodiscard]] Result<void> introduce(UniqueFd socket, Deadline deadline);
    [[nodiscard]] Result<void> map_table(const UniqueFd& file);

    // Reading, by whoever waits.
    /// Says again what the service thread is to be woken for.
    void update_watch() noexcept;
    void read_as_leader(Lock& lock, Deadline deadline);
    /// Everything that is there, without waiting. Nothing if somebody else reads.
    void read_what_is_there(Lock& lock);
    void take(Result<AgentMessage> message);
    void dispatch(AgentMessage message);
    void undo_unwanted(const AgentMessage& message) noexcept;
    void lose_attachment();
    void pass_leadership();
    /// Until the slot has its answer. Timeout: it has none.
    [[nodiscard]] bool wait_for(Lock& lock, Slot& slot, Deadline deadline);

    // Asking.
    void send_now(std::span<const std::byte> message) noexcept;
    [[nodiscard]] Result<void> send(Lock& lock, std::span<const std::byte> message,
                                    Deadline deadline);
    /// `make_body(again)` is asked for the message each time it is sent; `again` after a change of
    /// agent. If not `repeatable`, such a change is a ConnectionLost.
    template <class MakeBody>
    [[nodiscard]] Result<AgentMessage> call(MakeBody make_body, Deadline deadline,
                                            bool repeatable = true,
                                            std::function<void(AgentMessage&)> on_answer = {},
                                            const void* owner = nullptr);
    template <class Body>
    [[nodiscard]] Result<AgentMessage> call_plain(
        const Body& body, std::function<void(AgentMessage&)> on_answer = {}) {
        return call([&](bool) { return body; }, answer_deadline(), true, std::move(on_answer));
    }
    /// The one kind of answer that is right, or the error.
    template <class Body>
    [[nodiscard]] static Result<Body> expect(const Result<AgentMessage>& answer) {
        if (!answer) return answer.error();
        if (const auto* failure = std::get_if<FailedReply>(&answer.value().reply.body))
            return error_of(*failure);
        if (const auto* body = std::get_if<Body>(&answer.value().reply.body)) return *body;
        return Result<Body>(Code::ProtocolViolation,
                            "the kernel agent gave an answer that does not fit the question");
    }
    template <class Body>
    [[nodiscard]] static Result<void> expect_done(const Result<AgentMessage>& answer) {
        auto body = expect<Body>(answer);
        if (!body) return std::move(body).error();
        return {};
    }
    template <class Body>
    void notify(const Body& body) noexcept;

    /// A wait that its owner may cancel, for as long as the call lasts. Under the lock.
    class OwnedWait {
      public:
        OwnedWait(Client& client, const void* owner) : client_(client) {
            if (owner != nullptr) entry_ = client_.waits_.emplace(owner, false);
        }
        OwnedWait(const OwnedWait&) = delete;
        OwnedWait& operator=(const OwnedWait&) = delete;
        ~OwnedWait() {
            if (entry_) client_.waits_.erase(*entry_);
        }
        [[nodiscard]] bool cancelled() const { return entry_ && (*entry_)->second; }

      private:
        Client& client_;
        std::optional<std::multimap<const void*, bool>::iterator> entry_;
    };

    // Connections.
    [[nodiscard]] static Result<ConnectOffer> canonical_offer(const ConnectOffer& offer);
    [[nodiscard]] std::function<void(AgentMessage&)> connection_recorder(
        const ConnectOffer& offer, std::shared_ptr<std::optional<Error>> failure);
    [[nodiscard]] Result<Established> established(const Result<AgentMessage>& answer,
                                                  base::FdList fds);
    /// Was it held?
    bool forget_connection(std::uint64_t connection) noexcept;
    [[nodiscard]] bool is_alone(std::uint64_t connection) const {
        const auto held = holdings_.connections.find(connection);
        return held != holdings_.connections.end() && held->second.alone;
    }
    void share_peer_descriptors(Slot& slot);
    [[nodiscard]] Result<base::FdList> claim_descriptors(Slot& slot);
    void forget_incoming(std::uint64_t request);
    void interrupt() noexcept;
    [[nodiscard]] Result<KmemBlock> allocate_kmem(std::uint64_t bytes, ProtectionTag tag,
                                                  bool ordinary_pages);
    [[nodiscard]] Error lost_descriptors() const {
        return Error{Code::OutOfResources,
                     "this process could not take a descriptor from the kernel agent: its "
                     "RLIMIT_NOFILE is " +
                         std::to_string(descriptor_limit())};
    }

    const ProcessResources resources_;
    const bool may_start_;
    const bool observer_;
    const pid_t process_id_;
    const Nanoseconds answer_time_;
    const bool pins_memory_;
    std::uint64_t instance_ = 0;

    base::Mapping table_;
    std::atomic<std::uint32_t> epoch_{0};
    std::atomic<std::uint16_t> net_port_{0};
    UniqueFd interrupt_;  // wakes whoever reads the socket: what it waits for was cancelled
    UniqueFd watch_;      // epoll: readable when the service thread should look

    mutable std::mutex mutex_;
    UniqueFd socket_;  // only replaced while nobody reads
    bool attached_ = false;
    bool attaching_ = false;
    std::uint64_t attachment_ = 0;  // counts them
    std::condition_variable attaching_changed_;
    bool leader_ = false;
    std::uint64_t last_id_ = 0;
    std::unordered_map<std::uint64_t, std::shared_ptr<Slot>> slots_;
    std::map<std::uint64_t, std::shared_ptr<Slot>> peers_;       // also in slots_ while they wait
    std::unordered_map<std::uint64_t, std::uint64_t> incoming_;  // attachment, by request
    std::multimap<const void*, bool> waits_;  // by owner: whether it was cancelled
    /// Descriptors of processes that unclaimed peer requests have met, by agent and process.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<base::FdList>> met_processes_;
    Holdings holdings_;
    std::size_t untold_ = 0;              // connections held whose other end has left, not told yet
    std::vector<LinkPolicyWish> wishes_;  // not told yet
    std::mutex pin_mutex_;
    PinLedger pins_;
};

template <class MakeBody>
Result<AgentMessage> Client::call(MakeBody make_body, Deadline deadline, bool repeatable,
                                  std::function<void(AgentMessage&)> on_answer, const void* owner) {
    const base::RealTime real_time;
    if (forked()) return fork_error();
    Lock lock(mutex_);
    const OwnedWait wait(*this, owner);
    bool again = false;
    for (;;) {
        if (wait.cancelled())
            return Result<AgentMessage>(Code::InvalidArgument, "the wait was cancelled");
        const Deadline attach_deadline = deadline.earlier(answer_deadline());
        if (auto attached = ensure_attached(lock, may_start_, attach_deadline); !attached)
            return std::move(attached).error();
        const std::uint64_t id = ++last_id_;
        auto slot = std::make_shared<Slot>();
        slot->on_answer = on_answer;
        slot->owner = owner;
        slots_[id] = slot;
        // What on_answer refers to ends with this call, however it ends.
        base::Undo waiting([&] { slots_.erase(id); });
        const auto message = encode_in_place(id, make_body(again));
        if (auto sent = send(lock, message, deadline); !sent) return std::move(sent).error();
        if (!wait_for(lock, *slot, deadline)) {
            return Result<AgentMessage>(
                Code::Timeout,
                "the kernel agent did not answer in time (it may be stopped or "
                "overloaded; VIA_AGENT_TIMEOUT_MS is " +
                    std::to_string(answer_time_ / 1'000'000) + ")");
        }
        if (slot->state == Slot::State::Answered) return std::move(*slot->message);
        if (slot->state == Slot::State::Cancelled) continue;
        if (slot->state == Slot::State::NoMemory) throw std::bad_alloc();
        if (!repeatable)
            return Result<AgentMessage>(Code::ConnectionLost,
                                        "the kernel agent ended while it was asked");
        again = true;
    }
}

template <class Body>
void Client::notify(const Body& body) noexcept {
    try {
        Lock lock(mutex_);
        if (auto sent = send(lock, encode_in_place(0, body), answer_deadline()); !sent)
            base::log(LogLevel::Warning, sent.error().sentence);
    } catch (...) {
        // Out of memory: the agent learns of it when the process ends.
    }
}

}  // namespace via::ka::attachment
