// SPDX-License-Identifier: BSD-3-Clause
#include "ka/client.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/log.hpp"
#include "base/message_socket.hpp"
#include "base/settings.hpp"
#include "base/undo.hpp"
#include "ka/conversation.hpp"
#include "ka/descriptors.hpp"
#include "ka/holdings.hpp"
#include "ka/launcher.hpp"
#include "ka/limits.hpp"
#include "ka/pin_ledger.hpp"
#include "ka/protocol.hpp"

namespace via::ka {
namespace {

using base::Code;
using base::Deadline;
using base::Error;
using base::LogLevel;
using base::Nanoseconds;
using base::Result;
using base::UniqueFd;

using Lock = std::unique_lock<std::mutex>;

constexpr std::size_t most_wishes = 64;

std::chrono::steady_clock::time_point time_point(Deadline deadline) {
    // steady_clock is CLOCK_MONOTONIC; far moments are cut so that the sum does not overflow.
    const Nanoseconds far = base::monotonic_now() + 3600'000'000'000;
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(std::min(deadline.moment(), far)));
}

std::uint64_t number_of(const void* address) {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(address));
}

/// A deadline for the agent's answer to a question that has a deadline itself: the agent keeps
/// that one, and answers soon after it.
Deadline with_grace(Deadline deadline, Nanoseconds grace) {
    if (deadline.is_never()) return deadline;
    const Nanoseconds from = std::max(deadline.moment(), base::monotonic_now());
    if (from > Deadline::never().moment() - grace) return Deadline::never();
    return Deadline::at(from + grace);
}

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

Client::~Client() {
    if (forked()) return;
    // Also for copies of the descriptor in children: the agent must see the end now.
    if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
    for (const auto& [handle, region] : holdings_.regions)
        if (pins_memory_) pins_.unpin(region.address, region.bytes);
}

Result<void> Client::start(Deadline deadline) {
    interrupt_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!interrupt_.valid()) return base::system_error(errno, "cannot create an eventfd");
    watch_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    if (!watch_.valid())
        return name_descriptor_limit(base::system_error(errno, "cannot create an epoll descriptor"),
                                     "this process's");
    Lock lock(mutex_);
    return ensure_attached(lock, may_start_, deadline);
}

// ---- attaching

Result<void> Client::ensure_attached(Lock& lock, bool may_start, Deadline deadline) {
    while (!attached_) {
        if (deadline.expired() && attaching_)
            return Result<void>(Code::Timeout,
                                "the kernel agent is gone and attaching to a new "
                                "one takes too long");
        // A reader of the old socket finishes first.
        if (attaching_ || leader_) {
            attaching_changed_.wait_until(lock, time_point(deadline));
            continue;
        }
        attaching_ = true;
        lock.unlock();
        base::Undo ended([&] {
            lock.lock();
            attaching_ = false;
            attaching_changed_.notify_all();
        });
        if (auto made = make_attachment(may_start, deadline); !made) return made;
    }
    return {};
}

Result<void> Client::make_attachment(bool may_start, Deadline deadline) {
    for (;;) {
        auto connection = may_start ? find_or_start_agent(deadline) : find_agent();
        if (!connection) return std::move(connection).error();
        auto introduced =
            introduce(std::move(connection.value().socket), deadline.earlier(answer_deadline()));
        if (introduced || introduced.error().code != Code::ConnectionLost || deadline.expired())
            return introduced;
        // The agent was about to end; the next one is found or started after a breath.
        const timespec breath{0, 1'000'000};
        nanosleep(&breath, nullptr);
    }
}

Result<void> Client::introduce(UniqueFd socket, Deadline deadline) {
    Conversation conversation(socket, deadline);
    AttachRequest request;
    request.program = FixedText<64>(program_invocation_short_name);
    request.rmmt_epoch = epoch_.load(std::memory_order_relaxed) + 1;
    request.arena_floor = holdings_.arena_floor();
    request.instance = instance_;
    request.restoring = observer_ ? 0 : 1;
    std::vector<int> fds;
    const auto offer = [&](std::uint32_t bit, int fd) {
        if (fd < 0) return;
        request.descriptors |= bit;
        fds.push_back(fd);
    };
    offer(attach_doorbell_memory, resources_.doorbell_memory);
    offer(attach_doorbell_event, resources_.doorbell_event);
    offer(attach_counters, resources_.counters);
    auto answer = conversation.ask(request, fds);
    auto attached = expect<AttachedReply>(answer);
    if (!attached) return std::move(attached).error();
    net_port_.store(static_cast<std::uint16_t>(attached.value().net_port),
                    std::memory_order_relaxed);
    if (!observer_) {
        if (answer.value().fds.empty()) return lost_descriptors();
        if (auto restored = conversation.restore(holdings_); !restored) return restored;
        // Only now, when the new table knows all regions, does it take the old one's place.
        if (auto mapped = map_table(answer.value().fds.front()); !mapped) return mapped;
    }
    const Lock lock(mutex_);
    // Peer requests that were under way are asked again.
    for (const auto& [id, slot] : peers_) {
        if (slot->state == Slot::State::Answered) continue;
        const PeerRequestRequest again{timeout_of(slot->deadline), slot->offer};
        if (auto told = conversation.tell(encode(id, again)); !told) return told;
    }
    for (const auto& [id, slot] : peers_) {
        if (slot->state == Slot::State::Answered) continue;
        slot->state = Slot::State::Waiting;
        slots_[id] = slot;
    }
    // Closing alone would leave it in the watch while a child of fork() has it open.
    if (socket_.valid()) epoll_ctl(watch_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
    socket_ = std::move(socket);
    attached_ = true;
    ++attachment_;
    epoch_.fetch_add(1, std::memory_order_release);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    if (epoll_ctl(watch_.get(), EPOLL_CTL_ADD, socket_.get(), &event) != 0)
        base::log(LogLevel::Warning, "cannot watch the kernel agent's socket");
    for (AgentMessage& message : conversation.unclaimed())
        dispatch(std::move(message));
    return {};
}

Result<void> Client::map_table(const UniqueFd& file) {
    if (auto verified = base::verify_memory_file(file, rmmt_bytes); !verified) return verified;
    if (!table_.valid()) {
        auto mapping = base::Mapping::map(file, rmmt_bytes, base::Access::ReadOnly);
        if (!mapping) return std::move(mapping).error();
        table_ = std::move(mapping).value();
        return {};
    }
    // Over the old table, in one step: readers never see an unmapped address, and a look-up that
    // straddles the change repeats itself because the stamps differ. The system call itself,
    // because the thread sanitizer takes mmap() for writing all of the range. The offset has its
    // full width: of an int that travels on the stack the upper half may be anything.
    if (syscall(SYS_mmap, table_.data(), rmmt_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(),
                off_t{0}) == -1)
        return base::system_error(errno, "cannot map the RMMT of the new kernel agent");
    return {};
}

bool Client::attached() const noexcept {
    if (forked()) return false;
    auto* self =
        const_cast<Client*>(this);  // what the agent has said is read, nothing else changes
    try {
        Lock lock(self->mutex_);
        self->read_what_is_there(lock);
        return attached_;
    } catch (...) {
        return false;
    }
}

bool Client::reattach_if_running() noexcept {
    if (forked()) return false;
    try {
        Lock lock(mutex_);
        read_what_is_there(lock);
        return ensure_attached(lock, false, answer_deadline()).ok();
    } catch (...) {
        return false;
    }
}

// ---- reading

void Client::update_watch() noexcept {
    epoll_event event{};
    event.events = EPOLLRDHUP;
    // While somebody reads, the service thread need not wake for every answer.
    if (!leader_) event.events |= EPOLLIN;
    // Somebody else has read what the service thread must hear: a socket can be written to, so this
    // wakes it at once.
    if (untold_ != 0 || !wishes_.empty()) event.events |= EPOLLOUT;
    epoll_ctl(watch_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
}

void Client::read_as_leader(Lock& lock, Deadline deadline) {
    leader_ = true;
    update_watch();
    lock.unlock();
    std::array<pollfd, 2> watched{pollfd{socket_.get(), POLLIN, 0},
                                  pollfd{interrupt_.get(), POLLIN, 0}};
    poll(watched.data(), watched.size(), deadline.poll_milliseconds());
    std::uint64_t interrupts;
    [[maybe_unused]] const ssize_t taken = ::read(interrupt_.get(), &interrupts, sizeof interrupts);
    auto message = [&] {
        base::Undo led([&] {
            lock.lock();
            leader_ = false;
            pass_leadership();
        });
        auto read = read_agent_message(socket_);
        led.keep();
        return read;
    }();
    lock.lock();
    leader_ = false;
    take(std::move(message));
    if (attached_) update_watch();
}

void Client::read_what_is_there(Lock&) {
    while (attached_ && !leader_) {
        auto message = read_agent_message(socket_);
        const bool nothing = !message && message.error().code == Code::Timeout;
        if (nothing) return;
        take(std::move(message));
    }
}

void Client::take(Result<AgentMessage> message) {
    if (message) return dispatch(std::move(message).value());
    if (message.error().code == Code::Timeout) return;
    if (message.error().code != Code::ConnectionLost)
        base::log(LogLevel::Error, message.error().sentence);
    lose_attachment();
}

void Client::lose_attachment() {
    attached_ = false;
    // Whatever it was, it is over; the watch stays readable until there is a new attachment.
    shutdown(socket_.get(), SHUT_RDWR);
    auto slots = std::move(slots_);
    slots_.clear();
    for (auto& [id, slot] : slots) {
        slot->state = Slot::State::Lost;
        slot->changed.notify_all();
    }
    attaching_changed_.notify_all();
}

void Client::dispatch(AgentMessage message) {
    if (const auto* gone = std::get_if<ConnectionsGoneEvent>(&message.reply.body)) {
        for (std::uint32_t i = 0; i < gone->count; ++i) {
            const auto held = holdings_.connections.find(gone->connections[i]);
            if (held == holdings_.connections.end() || held->second.alone) continue;
            held->second.alone = true;
            ++untold_;
        }
        update_watch();
        return;
    }
    if (const auto* wanted = std::get_if<LinkPolicyEvent>(&message.reply.body)) {
        // Nobody takes them in a process without a service thread; the last ones count.
        if (wishes_.size() == most_wishes) wishes_.erase(wishes_.begin());
        wishes_.push_back({wanted->policy.text(), wanted->vi_slot});
        update_watch();
        return;
    }
    // Whether somebody waits for it or not, and before a later answer can give the block away.
    if (const auto* freed = std::get_if<KmemFreedReply>(&message.reply.body))
        holdings_.remove_block(freed->arena, freed->offset, freed->arena_released == 1);
    const auto found = slots_.find(message.reply.id);
    if (found == slots_.end()) return undo_unwanted(message);
    const std::shared_ptr<Slot> slot = std::move(found->second);
    slots_.erase(found);
    slot->message = std::move(message);
    slot->state = Slot::State::Answered;
    try {
        if (slot->on_answer) slot->on_answer(*slot->message);
    } catch (const std::bad_alloc&) {
        // No room in the books for what the agent gave.
        undo_unwanted(*slot->message);
        slot->message.reset();
        slot->state = Slot::State::NoMemory;
    }
    slot->changed.notify_all();
}

bool Client::forget_connection(std::uint64_t connection) noexcept {
    const auto held = holdings_.connections.find(connection);
    if (held == holdings_.connections.end()) return false;
    if (held->second.alone && !held->second.told) --untold_;
    holdings_.connections.erase(held);
    return true;
}

/// The answer came after its caller had given up, or can not be used: neither the agent nor the
/// books keep anything of it.
void Client::undo_unwanted(const AgentMessage& message) noexcept {
    const ReplyBody& body = message.reply.body;
    if (const auto* established = std::get_if<EstablishedReply>(&body)) {
        (void)forget_connection(established->connection);
        send_now(encode_in_place(0, DisconnectedNotice{established->connection}));
    } else if (const auto* incoming = std::get_if<IncomingReply>(&body))
        send_now(encode_in_place(++last_id_, ConnectRejectRequest{incoming->request}));
    else if (const auto* registered = std::get_if<RegisteredReply>(&body))
        send_now(encode_in_place(++last_id_, DeregisterRequest{registered->handle, 0}));
    else if (const auto* allocated = std::get_if<KmemAllocatedReply>(&body))
        send_now(
            encode_in_place(++last_id_, FreeKmemRequest{allocated->offset, allocated->arena, 0}));
    else if (const auto* created = std::get_if<ViCreatedReply>(&body))
        send_now(encode_in_place(0, DestroyViNotice{created->vi, 0}));
}

void Client::pass_leadership() {
    attaching_changed_.notify_all();
    for (const auto& [id, slot] : slots_)
        slot->changed.notify_all();
}

bool Client::wait_for(Lock& lock, Slot& slot, Deadline deadline) {
    while (slot.state == Slot::State::Waiting && !deadline.expired()) {
        if (!leader_ && attached_)
            read_as_leader(lock, deadline);
        else
            slot.changed.wait_until(lock, time_point(deadline));
    }
    // Another waiter must read from now on.
    if (!leader_) pass_leadership();
    return slot.state != Slot::State::Waiting;
}

// ---- asking

void Client::send_now(std::span<const std::byte> message) noexcept {
    if (!attached_) return;
    try {
        if (base::send_message(socket_, message, {}, Deadline::at(0))) return;
        base::log(LogLevel::Warning,
                  "the kernel agent could not be told to undo what it gave; it keeps it until this "
                  "process ends");
    } catch (const std::bad_alloc&) {
        // Not even memory to say so.
    }
}

Result<void> Client::send(Lock& lock, std::span<const std::byte> message, Deadline deadline) {
    const std::uint64_t attachment = attachment_;
    for (;;) {
        if (!attached_ || attachment_ != attachment) return {};  // its slot is lost
        auto sent = base::send_message(socket_, message, {}, Deadline::at(0));
        // A lost connection shows when the socket is read to its end, in order.
        if (sent || sent.error().code == Code::ConnectionLost) return {};
        if (sent.error().code != Code::Timeout) return sent;
        if (deadline.expired())
            return Result<void>(Code::Timeout, "the kernel agent does not read its socket");
        // It may be waiting for us to read; and room comes without a notice to us.
        read_what_is_there(lock);
        lock.unlock();
        const timespec breath{0, 200'000};
        nanosleep(&breath, nullptr);
        lock.lock();
    }
}

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

// ---- memory

Result<MemoryHandle> Client::register_memory(const void* address, std::uint64_t bytes,
                                             ProtectionTag tag, std::uint32_t rights) {
    if (forked()) return fork_error();
    RegisterRequest region;
    region.address = number_of(address);
    region.bytes = bytes;
    region.tag = tag;
    region.rights = rights;
    if (bytes == 0 || region.address > ~std::uint64_t{0} - bytes ||
        (rights & ~(right_rdma_write | right_rdma_read)) != 0)
        return Result<MemoryHandle>(
            Code::InvalidArgument,
            "a region to register must have bytes, lie in the address space "
            "and have known rights");
    if (pins_memory_) {
        const std::lock_guard lock(pin_mutex_);
        if (auto pinned = pins_.pin(region.address, bytes); !pinned)
            return std::move(pinned).error();
    }
    base::Undo unregistered([&] {
        if (!pins_memory_) return;
        const std::lock_guard lock(pin_mutex_);
        pins_.unpin(region.address, bytes);
    });
    {
        const Lock lock(mutex_);
        if (const auto place = holdings_.locate(region.address, bytes)) {
            region.arena = place->first;
            region.arena_offset = place->second;
        }
    }
    auto registered = expect<RegisteredReply>(call_plain(region, [&](AgentMessage& answer) {
        if (const auto* body = std::get_if<RegisteredReply>(&answer.reply.body))
            holdings_.regions[body->handle] = region;
    }));
    if (!registered) return std::move(registered).error();
    unregistered.keep();
    return registered.value().handle;
}

Result<void> Client::deregister_memory(MemoryHandle handle) {
    std::optional<RegisterRequest> region;
    auto done =
        expect_done<DoneReply>(call_plain(DeregisterRequest{handle, 0}, [&](AgentMessage& answer) {
            if (!std::holds_alternative<DoneReply>(answer.reply.body)) return;
            if (auto found = holdings_.regions.extract(handle)) region = found.mapped();
        }));
    if (region && pins_memory_) {
        const std::lock_guard lock(pin_mutex_);
        pins_.unpin(region->address, region->bytes);
    }
    return done;
}

Result<void> Client::change_memory(MemoryHandle handle, ProtectionTag tag, std::uint32_t rights) {
    if ((rights & ~(right_rdma_write | right_rdma_read)) != 0)
        return Result<void>(Code::InvalidArgument, "unknown rights");
    return expect_done<DoneReply>(
        call_plain(ChangeMemoryRequest{handle, tag, rights, 0}, [&](AgentMessage& answer) {
            if (!std::holds_alternative<DoneReply>(answer.reply.body)) return;
            const auto found = holdings_.regions.find(handle);
            if (found == holdings_.regions.end()) return;
            found->second.tag = tag;
            found->second.rights = rights;
        }));
}

Result<KmemBlock> Client::allocate_kmem(std::uint64_t bytes, ProtectionTag tag) {
    auto block = allocate_kmem(bytes, tag, false);
    // Huge pages were there when the agent looked, and gone when they were to be used.
    if (!block && block.error().code == Code::NotSupported) return allocate_kmem(bytes, tag, true);
    return block;
}

Result<KmemBlock> Client::allocate_kmem(std::uint64_t bytes, ProtectionTag tag,
                                        bool ordinary_pages) {
    if (forked()) return fork_error();
    Result<KmemBlock> block(Code::ProtocolViolation, "the kernel agent gave no kmem");
    bool huge_pages = false;
    const UniqueFd* file = nullptr;  // stays as long as the block does
    std::uint64_t arena_bytes = 0;
    bool new_arena = false;
    const auto answer = call_plain(
        AllocateKmemRequest{bytes, tag, ordinary_pages ? 1U : 0U}, [&](AgentMessage& message) {
            const auto* reply = std::get_if<KmemAllocatedReply>(&message.reply.body);
            if (reply == nullptr) return;
            new_arena = reply->new_arena == 1;
            Result<void> usable;
            if (new_arena && message.fds.empty())
                usable = lost_descriptors();
            else if (new_arena)
                usable = holdings_.add_arena(*reply, std::move(message.fds.front()));
            if (usable) {
                base::Undo empty([&] {
                    if (new_arena) holdings_.remove_block(reply->arena, reply->offset, true);
                });
                block = holdings_.add_block(*reply);
                empty.keep();
                huge_pages = reply->huge_pages == 1;
                arena_bytes = reply->arena_bytes;
                if (const auto* arena = holdings_.find_arena(reply->arena)) file = &arena->file;
            } else {
                block = usable.error();
                undo_unwanted(message);
            }
        });
    if (auto reply = expect<KmemAllocatedReply>(answer); !reply) return std::move(reply).error();
    if (!block) return block;
    // The pages exist before anybody touches them, so that a full system is an error here.
    Result<void> allocated;
    const KmemBlock& got = block.value();
    if (!huge_pages)
        allocated = base::allocate_range(*file, got.arena_offset, got.bytes);
    else if (new_arena)
        allocated = base::allocate_range(*file, 0, arena_bytes);
    if (allocated) return block;
    abandon_kmem(got.address);
    if (huge_pages && !ordinary_pages)
        return Result<KmemBlock>(Code::NotSupported, "huge pages are used up");
    return std::move(allocated).error();
}

Result<void> Client::free_kmem(const void* address) {
    if (forked()) return fork_error();
    std::optional<KmemBlock> block;
    {
        const Lock lock(mutex_);
        block = holdings_.find_block(address);
    }
    if (!block) return Result<void>(Code::InvalidArgument, "no kmem block starts at that address");
    // The books are kept when the answer comes.
    return expect_done<KmemFreedReply>(
        call_plain(FreeKmemRequest{block->arena_offset, block->arena, 0}));
}

void Client::abandon_kmem(const void* address) noexcept {
    if (forked()) return;
    const Lock lock(mutex_);
    const auto block = holdings_.find_block(address);
    if (block)
        send_now(
            encode_in_place(++last_id_, FreeKmemRequest{block->arena_offset, block->arena, 0}));
}

// ---- VIs and connections

Result<std::uint32_t> Client::create_vi() {
    auto created = expect<ViCreatedReply>(call_plain(CreateViRequest{}, [&](AgentMessage& message) {
        if (const auto* reply = std::get_if<ViCreatedReply>(&message.reply.body))
            holdings_.vis.insert(reply->vi);
    }));
    if (!created) return std::move(created).error();
    return created.value().vi;
}

void Client::destroy_vi(std::uint32_t vi) noexcept {
    if (forked()) return;
    try {
        Lock lock(mutex_);
        // An attachment that is being made would tell the new agent of it.
        while (attaching_)
            attaching_changed_.wait(lock);
        if (holdings_.vis.erase(vi) == 0) return;
        for (auto held = holdings_.connections.begin(); held != holdings_.connections.end();) {
            const std::uint64_t connection = held->first;
            const bool of_vi = held->second.record.vi == vi;
            ++held;
            if (of_vi) (void)forget_connection(connection);
        }
    } catch (...) {
        return;
    }
    notify(DestroyViNotice{vi, 0});
}

void Client::disconnected(std::uint64_t connection) noexcept {
    if (forked()) return;
    try {
        Lock lock(mutex_);
        while (attaching_)
            attaching_changed_.wait(lock);
        if (!forget_connection(connection)) return;
    } catch (...) {
        return;
    }
    notify(DisconnectedNotice{connection});
}

Result<ConnectOffer> Client::canonical_offer(const ConnectOffer& offer) {
    ConnectOffer result = offer;
    auto local = canonical(offer.local);
    if (!local) return std::move(local).error();
    auto remote = canonical(offer.remote);
    if (!remote) return std::move(remote).error();
    result.local = local.value();
    result.remote = remote.value();
    return result;
}

std::function<void(AgentMessage&)> Client::connection_recorder(
    const ConnectOffer& offer, std::shared_ptr<std::optional<Error>> failure) {
    return [this, offer, failure = std::move(failure)](AgentMessage& message) {
        const auto* reply = std::get_if<EstablishedReply>(&message.reply.body);
        if (reply == nullptr) return;
        if (message.fds.size() != reply->descriptor_count()) {
            // The other end must learn that nobody is here.
            *failure = lost_descriptors();
            undo_unwanted(message);
            return;
        }
        std::uint32_t flags = offer.attributes.flags;
        if ((reply->descriptors & established_process) == 0) flags |= connection_remote;
        holdings_.connections[reply->connection].record = ConnectionRecord{
            reply->connection, reply->secret,       offer.vi, offer.attributes.tag, flags,
            reply->peer_uid,   reply->peer_instance};
    };
}

Result<Established> Client::established(const Result<AgentMessage>& answer, base::FdList fds) {
    auto reply = expect<EstablishedReply>(answer);
    if (!reply) return std::move(reply).error();
    const EstablishedReply& body = reply.value();
    base::Undo unusable([&] { disconnected(body.connection); });
    Established result;
    result.connection = body.connection;
    result.secret = body.secret;
    result.requester = body.requester == 1;
    result.channel_bytes = body.channel_bytes;
    result.session_key = body.session_key;
    result.remote_attributes = body.remote_attributes;
    result.remote_address = body.remote_address;
    result.remote_parameters = body.remote_parameters;
    result.peer.process = body.peer_process;
    result.peer.agent_epoch = body.agent_epoch;
    result.peer.pid = body.peer_pid;
    result.peer.uid = body.peer_uid;
    result.peer.rmmt_epoch = body.peer_rmmt_epoch;
    std::size_t next = 0;
    if ((body.descriptors & established_channel) != 0) result.channel = std::move(fds[next++]);
    if ((body.descriptors & established_process) != 0) {
        result.peer.pidfd = std::move(fds[next++]);
        result.peer.rmmt = std::move(fds[next++]);
    }
    if ((body.descriptors & established_doorbell_memory) != 0)
        result.peer.doorbell_memory = std::move(fds[next++]);
    if ((body.descriptors & established_doorbell_event) != 0)
        result.peer.doorbell_event = std::move(fds[next++]);
    bool alone = false;
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        alone = is_alone(body.connection);
    }
    if (alone)
        return Result<Established>(Code::ConnectionLost,
                                   "the process at the other end has left the new connection");
    // Both ends do this, so neither depends on the other's having done it.
    if (result.channel.valid())
        if (auto allocated = base::allocate_range(result.channel, 0, body.channel_bytes);
            !allocated)
            return std::move(allocated).error();
    unusable.keep();
    return result;
}

Result<IncomingRequest> Client::connect_wait(const NetAddress& local, Deadline deadline,
                                             const void* owner, std::uint32_t fabrics) {
    if (fabrics == 0 || (fabrics & ~all_fabrics) != 0)
        return Result<IncomingRequest>(Code::InvalidArgument, "a wait for unknown fabrics");
    auto place = canonical(local);
    if (!place) return std::move(place).error();
    auto incoming = expect<IncomingReply>(call(
        [&](bool) {
            ConnectWaitRequest request;
            request.timeout_ns = timeout_of(deadline);
            request.local = place.value();
            request.fabrics = fabrics;
            return request;
        },
        with_grace(deadline, answer_time_), true,
        [&](AgentMessage& message) {
            if (const auto* reply = std::get_if<IncomingReply>(&message.reply.body))
                incoming_[reply->request] = attachment_;
        },
        owner));
    if (!incoming) return std::move(incoming).error();
    const IncomingReply& body = incoming.value();
    return IncomingRequest{body.request,           body.remote,        body.remote_attributes,
                           body.remote_parameters, body.channel_bytes, body.fabric};
}

void Client::cancel_waits(const void* owner) noexcept {
    if (forked() || owner == nullptr) return;
    std::vector<std::uint64_t> cancelled;
    try {
        const Lock lock(mutex_);
        // Also those that are just being asked again at a new agent.
        const auto [first, last] = waits_.equal_range(owner);
        for (auto wait = first; wait != last; ++wait)
            wait->second = true;
        for (auto& [id, slot] : slots_) {
            if (slot->owner != owner || slot->state != Slot::State::Waiting) continue;
            slot->state = Slot::State::Cancelled;
            slot->changed.notify_all();
            cancelled.push_back(id);
        }
        for (const std::uint64_t id : cancelled)
            slots_.erase(id);
        interrupt();
    } catch (...) {
        return;
    }
    for (const std::uint64_t id : cancelled)
        notify(CancelNotice{id});
}

/// Whoever reads the socket looks again whether what it waits for is still wanted.
void Client::interrupt() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(interrupt_.get(), &one, sizeof one);
}

void Client::forget_incoming(std::uint64_t request) {
    const Lock lock(mutex_);
    incoming_.erase(request);
}

Result<Established> Client::connect_accept(std::uint64_t request, const ConnectOffer& offer,
                                           Deadline deadline) {
    if (forked()) return fork_error();
    auto own = canonical_offer(offer);
    if (!own) return std::move(own).error();
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        const auto found = incoming_.find(request);
        if (found == incoming_.end())
            return Result<Established>(Code::InvalidArgument,
                                       "there is no such connection request to accept");
        if (!attached_ || found->second != attachment_) {
            incoming_.erase(found);
            return Result<Established>(Code::Timeout,
                                       "the kernel agent that brought the connection request is "
                                       "gone; the requester asks again");
        }
    }
    const auto failure = std::make_shared<std::optional<Error>>();
    auto answer = call(
        [&](bool) {
            return ConnectAcceptRequest{request, own.value()};
        },
        with_grace(deadline, answer_time_).earlier(answer_deadline()), false,
        connection_recorder(own.value(), failure));
    if (*failure) {
        forget_incoming(request);
        return **failure;
    }
    if (!answer && answer.error().code == Code::ConnectionLost) {
        forget_incoming(request);
        return Result<Established>(Code::Timeout,
                                   "the kernel agent ended while the connection was accepted");
    }
    base::FdList fds;
    if (answer) fds = std::move(answer.value().fds);
    auto result = established(answer, std::move(fds));
    const bool stays = !result && (result.error().code == Code::InvalidArgument ||
                                   result.error().code == Code::InvalidState ||
                                   result.error().code == Code::ReliabilityMismatch ||
                                   result.error().code == Code::TransferSizeMismatch ||
                                   result.error().code == Code::QosMismatch);
    if (!stays) forget_incoming(request);
    return result;
}

Result<void> Client::connect_reject(std::uint64_t request) {
    if (forked()) return fork_error();
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        const auto found = incoming_.find(request);
        if (found == incoming_.end())
            return Result<void>(Code::InvalidArgument,
                                "there is no such connection request to reject");
        const bool stale = !attached_ || found->second != attachment_;
        incoming_.erase(found);
        // With its agent the request is gone; the requester asks again at the next one.
        if (stale) return {};
    }
    auto done = expect_done<DoneReply>(
        call([&](bool) { return ConnectRejectRequest{request}; }, answer_deadline(), false));
    if (!done && done.error().code == Code::ConnectionLost) return {};
    return done;
}

Result<Established> Client::connect_request(const ConnectOffer& offer, Deadline deadline) {
    auto own = canonical_offer(offer);
    if (!own) return std::move(own).error();
    const auto failure = std::make_shared<std::optional<Error>>();
    auto answer = call(
        [&](bool again) {
            // After a change of agent the server may not have come back yet.
            const std::uint64_t patience = again ? max_patience_ns : 0;
            return ConnectRequestRequest{timeout_of(deadline), patience, own.value()};
        },
        with_grace(deadline, answer_time_), true, connection_recorder(own.value(), failure));
    if (*failure) return **failure;
    base::FdList fds;
    if (answer) fds = std::move(answer.value().fds);
    return established(answer, std::move(fds));
}

// ---- peers

Result<std::uint64_t> Client::peer_request(const ConnectOffer& offer, Deadline deadline) {
    if (forked()) return fork_error();
    auto own = canonical_offer(offer);
    if (!own) return std::move(own).error();
    Lock lock(mutex_);
    if (auto attached = ensure_attached(lock, may_start_, answer_deadline()); !attached)
        return std::move(attached).error();
    // So that many requests in a row do not fill the socket with answers that nobody reads.
    read_what_is_there(lock);
    const std::uint64_t id = ++last_id_;
    auto slot = std::make_shared<Slot>();
    slot->offer = own.value();
    slot->deadline = deadline;
    const auto failure = std::make_shared<std::optional<Error>>();
    std::weak_ptr<Slot> weak = slot;
    slot->on_answer = [this, record = connection_recorder(own.value(), failure), failure,
                       weak](AgentMessage& message) {
        record(message);
        const auto strong = weak.lock();
        if (!strong) return;
        strong->failure = *failure;
        if (!strong->failure) share_peer_descriptors(*strong);
    };
    slots_[id] = slot;
    peers_[id] = slot;
    const PeerRequestRequest request{timeout_of(deadline), own.value()};
    base::Undo pending([&] {
        slots_.erase(id);
        peers_.erase(id);
    });
    if (auto sent = send(lock, encode_in_place(id, request), answer_deadline()); !sent)
        return std::move(sent).error();
    pending.keep();
    return id;
}

std::optional<Result<Established>> Client::peer_poll(std::uint64_t request) {
    if (forked()) return Result<Established>(fork_error());
    std::shared_ptr<Slot> slot;
    {
        Lock lock(mutex_);
        read_what_is_there(lock);
        const auto found = peers_.find(request);
        if (found == peers_.end())
            return Result<Established>(Code::InvalidArgument, "there is no such peer request");
        slot = found->second;
        // A lost agent is replaced, and the request asked again there.
        Result<void> attached;
        if (slot->state == Slot::State::NoMemory) {
            peers_.erase(found);
            throw std::bad_alloc();
        }
        if (slot->state != Slot::State::Answered)
            attached = ensure_attached(lock, may_start_, answer_deadline());
        if (slot->state != Slot::State::Answered) {
            // The agent keeps the deadline; only if it does not answer at all, we do.
            if (slot->deadline.is_never() ||
                base::monotonic_now() - slot->deadline.moment() < answer_time_)
                return {};
            peers_.erase(request);
            slots_.erase(request);
            if (!attached) return Result<Established>(std::move(attached).error());
            return Result<Established>(Code::Timeout, "the kernel agent does not answer");
        }
        // Somebody else may have taken or cancelled it while the agent was replaced.
        if (peers_.erase(request) == 0)
            return Result<Established>(Code::InvalidArgument, "there is no such peer request");
    }
    if (slot->failure) return Result<Established>(*slot->failure);
    base::Undo unclaimed([&] {
        if (const auto* reply = std::get_if<EstablishedReply>(&slot->message->reply.body))
            disconnected(reply->connection);
    });
    auto fds = claim_descriptors(*slot);
    if (!fds) return Result<Established>(std::move(fds).error());
    unclaimed.keep();
    return established(std::move(*slot->message), std::move(fds).value());
}

/// A program may ask for a thousand peers and look at the outcomes later: those that are the same
/// process then share its descriptors.
void Client::share_peer_descriptors(Slot& slot) {
    const auto* reply = std::get_if<EstablishedReply>(&slot.message->reply.body);
    if (reply == nullptr) return;
    std::erase_if(met_processes_, [](const auto& entry) { return entry.second.expired(); });
    if ((reply->descriptors & established_process) == 0) return;
    const std::size_t own = (reply->descriptors & established_channel) != 0 ? 1 : 0;
    base::FdList& fds = slot.message->fds;
    auto& known = met_processes_[{reply->agent_epoch, reply->peer_process}];
    slot.peer_fds = known.lock();
    if (!slot.peer_fds) {
        slot.peer_fds = std::make_shared<base::FdList>();
        for (std::size_t i = own; i < fds.size(); ++i)
            slot.peer_fds->push_back(std::move(fds[i]));
        known = slot.peer_fds;
    }
    fds.keep_first(own);
}

Result<base::FdList> Client::claim_descriptors(Slot& slot) {
    base::FdList fds = std::move(slot.message->fds);
    if (!slot.peer_fds) return fds;
    for (const UniqueFd& fd : *slot.peer_fds) {
        UniqueFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
        if (!copy.valid()) return lost_descriptors();
        fds.push_back(std::move(copy));
    }
    const Lock lock(mutex_);
    slot.peer_fds.reset();
    return fds;
}

Result<Established> Client::peer_wait(std::uint64_t request) {
    if (forked()) return fork_error();
    for (;;) {
        if (auto outcome = peer_poll(request)) return std::move(*outcome);
        Lock lock(mutex_);
        const auto found = peers_.find(request);
        if (found == peers_.end()) continue;
        const std::shared_ptr<Slot> slot = found->second;
        // The agent answers at the deadline; if it does not, peer_poll gives up after a grace.
        if (slot->state == Slot::State::Waiting)
            (void)wait_for(lock, *slot, with_grace(slot->deadline, answer_time_));
        else if (slot->state == Slot::State::Lost)  // no agent can be had now
            slot->changed.wait_for(lock, std::chrono::milliseconds(10));
    }
}

void Client::peer_cancel(std::uint64_t request) noexcept {
    if (forked()) return;
    std::optional<std::uint64_t> connection;
    try {
        Lock lock(mutex_);
        while (attaching_)
            attaching_changed_.wait(lock);
        const auto found = peers_.find(request);
        if (found == peers_.end()) return;
        const std::shared_ptr<Slot> slot = found->second;
        peers_.erase(found);
        slots_.erase(request);
        // A thread in peer_wait looks again and finds the request gone.
        slot->state = slot->state == Slot::State::Waiting ? Slot::State::Lost : slot->state;
        slot->changed.notify_all();
        interrupt();
        if (slot->message)
            if (const auto* reply = std::get_if<EstablishedReply>(&slot->message->reply.body))
                connection = reply->connection;
    } catch (...) {
        return;
    }
    if (connection)
        disconnected(*connection);
    else
        notify(CancelNotice{request});
}

// ---- grants

Result<ArenaGrant> Client::peer_arena(std::uint64_t connection, std::uint32_t arena) {
    auto answer = call_plain(PeerArenaRequest{connection, arena, 0});
    auto granted = expect<ArenaGrantedReply>(answer);
    if (!granted) return std::move(granted).error();
    if (answer.value().fds.size() != 1) return lost_descriptors();
    return ArenaGrant{std::move(answer.value().fds.front()), granted.value().bytes};
}

Result<AgentClient::RmmtGrant> Client::peer_rmmt(std::uint64_t connection) {
    auto answer = call_plain(PeerRmmtRequest{connection});
    auto granted = expect<RmmtGrantedReply>(answer);
    if (!granted) return std::move(granted).error();
    if (answer.value().fds.size() != 1) return lost_descriptors();
    return RmmtGrant{std::move(answer.value().fds.front()), granted.value().epoch};
}

Result<Region> Client::translate(MemoryHandle handle) {
    auto found = expect<TranslatedReply>(call_plain(TranslateRequest{handle, 0}));
    if (!found) return std::move(found).error();
    const TranslatedReply& reply = found.value();
    return Region{reply.address, reply.length, reply.tag,
                  reply.rights,  reply.arena,  reply.arena_offset};
}

std::vector<std::uint64_t> Client::lost_connections() {
    if (forked()) return {};
    Lock lock(mutex_);
    read_what_is_there(lock);
    std::vector<std::uint64_t> lost;
    lost.reserve(untold_);
    if (untold_ != 0) {
        for (auto& [connection, held] : holdings_.connections) {
            if (!held.alone || held.told) continue;
            held.told = true;
            lost.push_back(connection);
        }
    }
    untold_ = 0;
    update_watch();
    return lost;
}

bool Client::is_lost(std::uint64_t connection) {
    if (forked()) return false;
    const Lock lock(mutex_);
    return is_alone(connection);
}

std::vector<AgentClient::LinkPolicyWish> Client::link_policy_wishes() {
    if (forked()) return {};
    Lock lock(mutex_);
    read_what_is_there(lock);
    auto wishes = std::exchange(wishes_, {});
    update_watch();
    return wishes;
}

// ---- for people

Result<AgentStatus> Client::status() {
    AgentStatus status;
    std::uint64_t last = 0;
    for (;;) {
        auto reply = expect<StatusPageReply>(call_plain(StatusRequest{last}));
        if (!reply) return std::move(reply).error();
        const StatusPageReply& page = reply.value();
        status.pid = page.pid;
        status.uid = page.uid;
        status.version = page.version.text();
        status.socket = page.socket.text();
        status.on_demand = page.on_demand == 1;
        status.uptime_seconds = page.uptime_seconds;
        status.idle_seconds_limit = page.idle_seconds_limit;
        status.huge_pages = page.huge_pages == 1;
        status.net_port = static_cast<std::uint16_t>(page.net_port);
        status.net_key = page.net_key == 1;
        status.net_problem = page.net_problem.text();
        for (std::uint32_t i = 0; i < page.count; ++i) {
            const ProcessRecord& record = page.processes[i];
            status.processes.push_back(ProcessStatus{
                record.pid, record.uid, record.program.text(), record.attached_seconds, record.vis,
                record.connections, record.waiting, record.regions, record.registered_bytes,
                record.kmem_bytes});
            last = record.process;
        }
        if (page.more == 0) return status;
    }
}

Result<UniqueFd> Client::counters_of(std::int32_t pid) {
    auto answer = call_plain(CountersOfRequest{pid, 0});
    auto granted = expect<CountersGrantedReply>(answer);
    if (!granted) return std::move(granted).error();
    if (answer.value().fds.size() != 1) return lost_descriptors();
    return std::move(answer.value().fds.front());
}

Result<void> Client::wish_link_policy(std::int32_t pid, const LinkPolicyWish& wish) {
    return expect_done<DoneReply>(
        call_plain(SetLinkPolicyRequest{pid, wish.vi_slot, FixedText<16>(wish.policy)}));
}

Result<void> Client::stop_agent() {
    auto done =
        expect_done<DoneReply>(call([](bool) { return StopRequest{}; }, answer_deadline(), false));
    // It may be faster at ending than at answering.
    if (!done && done.error().code == Code::ConnectionLost) return {};
    return done;
}

Result<std::unique_ptr<AgentClient>> attach_client(const ProcessResources& resources,
                                                   Deadline deadline, bool may_start) {
    auto client = std::make_unique<Client>(resources, may_start);
    if (auto started = client->start(deadline); !started) return std::move(started).error();
    return std::unique_ptr<AgentClient>(std::move(client));
}

}  // namespace

Result<std::unique_ptr<AgentClient>> AgentClient::attach(const ProcessResources& resources,
                                                         Deadline deadline) {
    return attach_client(resources, deadline, true);
}

Result<std::unique_ptr<AgentClient>> AgentClient::attach_if_running(
    const ProcessResources& resources, Deadline deadline) {
    return attach_client(resources, deadline, false);
}

}  // namespace via::ka
