// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/device.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/huge_pages.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "ka/host_address.hpp"
#include "mvich/device_parts.hpp"
#include "mvich/endpoint_parts.hpp"
#include "ua/hot_path.hpp"
#include "ua/tables.hpp"
#include "ua/wait.hpp"

namespace via::mvich {
namespace {

constexpr std::uint32_t completion_entries = 1024;
/// Completions handled in one call: enough for a stream, few enough to return soon.
constexpr int completions_per_progress = 32;
/// Everything that was there is seen in so many calls, whatever comes meanwhile.
constexpr std::uint32_t most_rounds_before_end = completion_entries / completions_per_progress;
/// So many connections inside the host are looked at one by one; more are a poll group's, which
/// does not look at the idle ones.
constexpr std::size_t few_lanes = 4;
/// Sleeping inside a call that should return: not long, since the caller may have other things to
/// look after, but longer and longer, since it has not done anything else for a while.
constexpr std::uint64_t first_nap_milliseconds = 5;
constexpr std::uint32_t longest_nap_doublings = 5;
/// Empty calls before it sleeps.
constexpr std::uint32_t polls_before_sleep = 2048;
/// When the counters page is brought up to date: after so many calls that moved something, and
/// after so many empty ones in a row.
constexpr std::uint64_t tidings_between_looks = 4096;
constexpr std::uint32_t polls_before_look = 1024;
static_assert(polls_before_look % CoreSharing::polls_between_alone == 0);
constexpr std::size_t most_pieces = 16;

base::Nanoseconds yield_timed() noexcept {
    const base::Nanoseconds before = base::machine_now();
    sched_yield();
    return base::machine_now() - before;
}

/// How often this thread's core went to another.
long core_changes() noexcept {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

}  // namespace

base::Result<std::unique_ptr<DeviceParts>> DeviceParts::open() {
    std::unique_ptr<DeviceParts> parts(new DeviceParts);
    if (auto started = parts->start(); !started) return std::move(started).error();
    return parts;
}

base::Result<void> DeviceParts::start() {
    auto settings = MessageSettings::read();
    if (!settings) return std::move(settings).error();
    settings_ = settings.value();
    const base::Settings& all = base::Settings::get();
    const std::string& progress = all.text("VIA_PROGRESS");
    rest_ = progress == "spin" ? Rest::Never : progress == "sleep" ? Rest::Sleep : Rest::Yield;
    chooses_ways_ = all.text("VIA_MPI_DEVICE") == "auto";
    auto nic = ua::Nic::open(all.text("VIA_MPI_DEVICE"));
    if (!nic) return std::move(nic).error();
    nic_ = std::move(nic).value();
    nic_->set_error_handler([](VIP_PVOID, VIP_ERROR_DESCRIPTOR*) {}, nullptr);
    auto tag = nic_->create_tag();
    if (!tag) return std::move(tag).error();
    tag_ = tag.value();
    auto cq = nic_->create_cq(completion_entries);
    if (!cq) return std::move(cq).error();
    cq_handle_ = cq.value();
    cq_ = ua::cq_table().find(reinterpret_cast<const void*>(cq_handle_));
    vbufs_ = std::make_unique<VbufPool>(
        *this, VbufPool::Geometry{settings_.vbuf_bytes, settings_.vbufs_per_region,
                                  settings_.vbuf_regions});
    // The first region at once: what the program registers may fill the table.
    if (Vbuf* first = vbufs_->take()) vbufs_->give(first);
    registrations_ = std::make_unique<RegistrationCache>(
        *this, RegistrationCache::Limits{settings_.cache_entries, std::size_t{1} << 40});
    connector_ = std::make_unique<Connector>(*this);
    if (auto started = connector_->start(); !started) return started;
    gauges_ = std::make_unique<GaugeShare>(counters());
    local_host_ = std::make_unique<ka::LocalHost>(0);
    // The address by which other hosts know this one, or the loopback's if there is none.
    own_host_.host_bytes = 4;
    own_host_.host = {127, 0, 0, 1};
    const na::NicAddress& address = nic_->device().attributes().address;
    ka::NetAddress own;
    own.host_bytes = static_cast<std::uint8_t>(address.size());
    std::copy(address.begin(), address.end(), own.host.begin());
    if (const auto agent = ka::agent_address(own)) {
        own_host_.host = agent->ip;
        own_host_.host_bytes = static_cast<std::uint8_t>(agent->ip_bytes());
    }
    return {};
}

DeviceParts::~DeviceParts() {
    connector_.reset();
    destroy_retired();
    if (gauges_) look();  // the counts of a device that is gone stay
    gauges_.reset();
    registrations_.reset();
    vbufs_.reset();
    if (nic_) nic_->close();
}

base::Result<std::uint32_t> DeviceParts::register_memory(void* address, std::size_t bytes) {
    auto handle =
        nic_->register_memory(address, bytes, {tag_, ka::right_rdma_read | ka::right_rdma_write});
    if (!handle) return std::move(handle).error();
    return handle.value();
}

void DeviceParts::deregister(void* address, std::uint32_t handle) noexcept {
    [[maybe_unused]] auto done = nic_->deregister_memory(address, handle);
}

void DeviceParts::favour(void* address, std::size_t bytes) noexcept {
    base::use_huge_pages(address, bytes);
}

bool DeviceParts::is_here(const HostPort& name) {
    const std::lock_guard guard(local_host_mutex_);
    ka::AgentAddress address;
    address.family = name.host_bytes == 16 ? 6 : 4;
    address.ip = name.host;
    return address.is_loopback() || local_host_->is_here(address, base::monotonic_now());
}

void DeviceParts::add(EndpointParts& endpoint) {
    endpoints_.push_back(&endpoint);
}

void DeviceParts::remove(EndpointParts& endpoint) {
    std::erase(endpoints_, &endpoint);
}

void DeviceParts::add(ViLane& lane) {
    lanes_[lane.handle()] = &lane;
}

void DeviceParts::forget(ViLane& lane) {
    lanes_.erase(lane.handle());
    if (std::erase(in_place_, &lane) == 0 && lane.was_connected()) --between_hosts_;
}

void DeviceParts::carries(ViLane& lane, bool in_place) {
    if (in_place)
        in_place_.push_back(&lane);
    else
        ++between_hosts_;
}

/// Looks for packets and completions.
inline void DeviceParts::poll_lanes(bool by_program) {
    if (between_hosts_ != 0 || in_place_.size() > few_lanes) [[unlikely]] {
        if (by_program)
            cq_->poll_group_for_program();
        else
            cq_->group()->poll();
        return;
    }
    const ua::PolledBy who = by_program ? ua::PolledBy::Program : ua::PolledBy::Service;
    for (ViLane* lane : in_place_)
        lane->vi().poll_frames(lane->handle(), who);
}

void DeviceParts::touch(Conversation& conversation) {
    if (std::find(touched_.begin(), touched_.end(), &conversation) == touched_.end())
        touched_.push_back(&conversation);
    has_unsent_.store(true, std::memory_order_relaxed);
}

void DeviceParts::forget(Conversation& conversation) {
    std::erase(touched_, &conversation);
    has_unsent_.store(!touched_.empty(), std::memory_order_relaxed);
}

bool DeviceParts::flush_touched() {
    bool moved = false;
    for (std::size_t i = 0; i < touched_.size();) {
        Conversation& conversation = *touched_[i];
        moved = conversation.flush() || moved;
        if (conversation.gone()) any_broken_.store(true, std::memory_order_relaxed);
        if (conversation.wants_flush()) {
            ++i;
            continue;
        }
        touched_[i] = touched_.back();
        touched_.pop_back();
    }
    has_unsent_.store(!touched_.empty(), std::memory_order_relaxed);
    return moved;
}

void DeviceParts::end_broken() {
    any_broken_.store(false, std::memory_order_relaxed);
    rounds_before_end_ = 0;
    for (EndpointParts* endpoint : endpoints_)
        endpoint->end_broken();
}

bool DeviceParts::progress_locked(bool by_program) {
    return progress_inline(by_program);
}

inline bool DeviceParts::progress_inline(bool by_program) {
    events_ = false;
    poll_lanes(by_program);
    if (!events_ && cq_->empty() && touched_.empty() &&
        !any_broken_.load(std::memory_order_acquire)) [[likely]]
        return false;
    return handle_news();
}

/// After a poll that found something, or if something waits.
bool DeviceParts::handle_news() {
    ua::CompletionEntry entry;
    bool all_seen = false;
    for (int i = 0; i < completions_per_progress; ++i) {
        if (!cq_->pop(entry)) [[likely]] {
            all_seen = true;
            break;
        }
        events_ = true;
        const auto found = lanes_.find(entry.vi);
        if (found == lanes_.end()) continue;  // closed meanwhile
        found->second->completed(entry.receive ? ua::Queue::Receive : ua::Queue::Send);
    }
    bool moved = events_;
    if (!touched_.empty()) [[unlikely]]
        moved = flush_touched() || moved;
    // What came before a connection broke is taken first.
    if (any_broken_.load(std::memory_order_acquire)) [[unlikely]] {
        if (all_seen || ++rounds_before_end_ > most_rounds_before_end) end_broken();
        moved = true;
    }
    if (!moved) return false;
    if (tidings_.get() % tidings_between_looks == 0) [[unlikely]]
        look();
    tidings_.add();
    wake_sleepers();
    return true;
}

void DeviceParts::look() {
    looked_at_ = tidings();
    Gauges now;
    for (auto each = endpoints_.begin(); each != endpoints_.end(); ++each) {
        (*each)->add_to(now);
        // Several endpoints may share a queue: it counts with the first of them.
        const ReceiveQueue& queue = (*each)->receives();
        const auto has_it = [&](EndpointParts* other) { return &other->receives() == &queue; };
        if (std::none_of(endpoints_.begin(), each, has_it))
            now.unexpected_now += queue.unexpected_count();
    }
    now.vbufs_in_use = vbufs_->in_use();
    now.vbuf_regions = vbufs_->regions();
    now.registered_bytes = registrations_->registered_bytes();
    const RegistrationCache::Counts& counts = registrations_->counts();
    now.registration_hits = counts.hits;
    now.registration_misses = counts.misses;
    now.registration_refused = counts.refused;
    now.registration_evicted = counts.evicted;
    gauges_->tell(now);
}

/// Threads that make connections would wait for seconds where a program polls without pause and
/// cores are few: the lock knows no turns.
void DeviceParts::let_others_in() noexcept {
    constexpr int most_yields = 1000;
    for (int i = 0; i < most_yields && seldom_ones_.load(std::memory_order_relaxed) != 0; ++i)
        sched_yield();
}

/// By whom the message comes that the oldest receive waits for, if that is a process of this host
/// that has another core. Null also if several peers wait for this core: they could go on
/// meanwhile, where a single one soon waits for us.
ViLane* DeviceParts::hoped_for() const noexcept {
    const Conversation* awaited = nullptr;
    for (EndpointParts* endpoint : endpoints_) {
        const PostedReceive* const receive = endpoint->receives().first_posted(Space::Tagged);
        if (receive != nullptr) {
            awaited = endpoint->known(receive->from);
            break;
        }
    }
    if (awaited == nullptr) return nullptr;
    ViLane* found = nullptr;
    int here = 0;
    for (ViLane* lane : in_place_) {
        if (lane->abilities().peer_on_core->load(std::memory_order_relaxed))
            ++here;
        else if (lane->conversation() == awaited)
            found = lane;
    }
    return here > 1 ? nullptr : found;
}

/// The core is shared. To give it away helps nobody if what is awaited comes from another core: it
/// would come before the core is back. Nor is it looked elsewhere meanwhile: what nobody has asked
/// for yet is better left where it is.
bool DeviceParts::poll_in_hope() {
    for (std::uint32_t polled = 0;;) {
        const base::BiasedGuard guard(lock_);
        ViLane* const lane = hoped_for();
        if (lane == nullptr || (polled == 0 && !hope_.is_due())) return false;
        events_ = false;
        for (std::uint32_t poll = 0; poll < Hope::polls_at_once; ++poll) {
            if (!lane->vi().poll_frames(lane->handle(), ua::PolledBy::Program)) continue;
            handle_news();
            hope_.fulfilled();
            return true;
        }
        polled += Hope::polls_at_once;
        if (polled == Hope::most_polls) hope_.disappointed();
        if (progress_locked(true)) return true;
        if (polled == Hope::most_polls) return false;
    }
}

bool DeviceParts::progress() {
    bool moved;
    if (seldom_ones_.load(std::memory_order_relaxed) != 0) [[unlikely]]
        let_others_in();
    if (sharing_.is_shared() && poll_in_hope()) [[unlikely]] {
        moved = true;
    } else {
        const base::BiasedGuard guard(lock_);
        moved = progress_inline(true);
    }
    if (moved) {
        empty_polls_.store(0, std::memory_order_relaxed);
        return true;
    }
    const std::uint32_t empty = empty_polls_.load(std::memory_order_relaxed) + 1;
    empty_polls_.store(empty, std::memory_order_relaxed);
    if (!sharing_.due(empty)) [[likely]]
        return false;
    rest(empty);
    // Who had the core meanwhile may have sent what is waited for, and a caller that is told
    // "nothing" may give the core away once more.
    const base::BiasedGuard guard(lock_);
    if (!progress_locked(true)) return false;
    empty_polls_.store(0, std::memory_order_relaxed);
    return true;
}

void DeviceParts::rest(std::uint32_t empty) {
    if (empty == polls_before_look) {
        const base::BiasedGuard guard(lock_);
        look_again();
        naps_.store(0, std::memory_order_relaxed);  // something came since the last of them
    }
    if (rest_ == Rest::Never) return;
    if (rest_ == Rest::Sleep && empty >= polls_before_sleep) {
        take_nap(empty);
        return;
    }
    if (sharing_.surely_shared()) {
        sched_yield();
        return;
    }
    sharing_.came_back(sharing_.is_late(yield_timed()) && others_want_core());
}

/// How long it was away says little where system calls are slow, so the kernel's count decides.
bool DeviceParts::others_want_core() noexcept {
    const long before = core_changes();
    const base::Nanoseconds away = yield_timed();
    if (core_changes() != before) return true;
    sharing_.alone_it_took(away);
    return false;
}

/// It has looked often enough: no spinning, and if nothing comes the next call sleeps again.
void DeviceParts::take_nap(std::uint32_t empty) {
    const std::uint32_t naps = naps_.load(std::memory_order_relaxed);
    const base::Deadline end = base::Deadline::after_milliseconds(first_nap_milliseconds << naps);
    if (wait_spinning(0, end, tidings())) return;
    naps_.store(std::min(naps + 1, longest_nap_doublings), std::memory_order_relaxed);
    empty_polls_.store(empty + CoreSharing::polls_between_alone - 1, std::memory_order_relaxed);
}

void DeviceParts::wait(base::Deadline deadline, std::uint64_t seen) {
    wait_spinning(nic_->process().spin(), deadline, seen);
}

bool DeviceParts::wait_spinning(base::Nanoseconds spin, base::Deadline deadline,
                                std::uint64_t seen) {
    bool slept = false;
    const auto look = [&] {
        if (tidings() != seen) return true;
        const base::BiasedGuard guard(lock_);
        return progress_locked(true);
    };
    const auto arm = [&] {
        const bool first = !std::exchange(slept, true);
        if (first) cq_->sleeper_enters();
        const base::BiasedGuard guard(lock_);
        if (first) look_again();
        cq_->group()->arm(na::Wakes::Sleeper);
        // The group knows nothing of connections that are looked at without it.
        for (ViLane* lane : in_place_)
            lane->vi().wake_sleeper(lane->handle());
    };
    const bool came = ua::wait_until(nic_->process().doorbell(), spin, deadline, look, arm,
                                     [&] { return cq_->should_yield(); });
    if (came) empty_polls_.store(0, std::memory_order_relaxed);
    if (slept) {
        cq_->sleeper_leaves();
        nic_->process().look_after();
    }
    return came;
}

void DeviceParts::wake_sleepers() noexcept {
    na::Doorbell& doorbell = nic_->process().doorbell();
    if (doorbell.anyone_sleeps()) [[unlikely]]
        doorbell.wake_local();
}

void DeviceParts::wake() {
    wakes_.fetch_add(1);
    nic_->process().doorbell().wake_local();
}

void DeviceParts::arm() {
    const base::BiasedGuard guard(lock_);
    cq_->leave_to_service();
    for (auto& [handle, lane] : lanes_)
        lane->vi().leave_to_service(handle);
    // What came before. Not as the program: that would take it back from the service thread.
    progress_locked(false);
}

bool DeviceParts::serve() {
    bool as_owner;
    if (!lock_.try_lock(as_owner)) return true;
    own_thread_speaks_ = true;
    constexpr int most_rounds = 256;
    bool moved = true;
    for (int i = 0; i < most_rounds && moved; ++i)
        moved = progress_locked(false);
    const bool unfinished = moved || !touched_.empty();
    if (!unfinished) look_again();
    own_thread_speaks_ = false;
    lock_.unlock(as_owner);
    return unfinished;
}

void DeviceParts::destroy_retired() {
    std::vector<std::unique_ptr<ViLane>> retired;
    {
        const SeldomGuard guard(*this);
        retired.swap(retired_);
    }
}

Posted DeviceParts::receive_otherwise(ReceiveQueue& queue, const ReceiveOrder& order,
                                      UnexpectedMessage* message) {
    if (order.pieces.size() > most_pieces) return Posted::Invalid;
    const bool multi = (order.flags & order_multi_receive) != 0;
    if (multi && order.pieces.size() != 1) return Posted::Invalid;
    if (message == nullptr) {
        queue.post(order);
        return Posted::UnderWay;
    }
    if (!multi) {
        give(queue, *message, *queue.make(order));
        return Posted::UnderWay;
    }
    // Those that wait go into it first, as long as there is room.
    PostedReceive& receive = queue.post(order);
    while (message != nullptr && !receive.spent) {
        const bool last = give(queue, *message, receive);
        if (last) break;
        message = queue.find(order);
    }
    return Posted::UnderWay;
}

/// The receive may be gone afterwards: true if a multi-receive is spent.
bool DeviceParts::give(ReceiveQueue& queue, UnexpectedMessage& message, PostedReceive& receive) {
    auto& conversation = static_cast<Conversation&>(*message.source);
    const UnexpectedMessage taken = message;
    queue.remove(message);
    bool spends = false;
    if (receive.is_multi()) {
        const std::uint64_t left = receive.pieces.bytes() - receive.used;
        spends = taken.total >= left || left - taken.total < receive.least_free;
    }
    conversation.receive(taken, receive);
    conversation.flush();
    touch(conversation);
    told();
    return spends;
}

void DeviceParts::discard(ReceiveQueue& queue, UnexpectedMessage& message) {
    auto& conversation = static_cast<Conversation&>(*message.source);
    conversation.discard(message);
    queue.remove(message);
    conversation.flush();
    touch(conversation);
}

bool DeviceParts::cancel(ReceiveQueue& queue, const void* context) {
    PostedReceive* receive = queue.cancel(context);
    if (receive == nullptr) return false;
    Completion completion;
    completion.what = Happened::Received;
    completion.status = Status::Cancelled;
    completion.space = receive->space;
    completion.tag = receive->tag;
    completion.last_of_buffer = receive->is_multi();
    completion.cookie = receive->cookie;
    Listener* listener = receive->listener;
    queue.destroy(receive);
    listener->done(completion);
    told();
    return true;
}

std::optional<Envelope> DeviceParts::peek(ReceiveQueue& queue, const ReceiveOrder& order,
                                          Peek how) {
    for (EndpointParts* endpoint : endpoints_)
        endpoint->follow_book();
    UnexpectedMessage* message = queue.find(order);
    if (message == nullptr) return std::nullopt;
    const Envelope envelope{message->source->peer, message->tag, message->total, message->data,
                            message->has_data};
    if (how == Peek::Claim) message->claimed_by = order.cookie.context;
    if (how == Peek::Discard) discard(queue, *message);
    return envelope;
}

Posted DeviceParts::claimed_receive(ReceiveQueue& queue, const ReceiveOrder& order) {
    UnexpectedMessage* message = queue.find_claimed(order.cookie.context);
    if (message == nullptr) return Posted::Invalid;
    give(queue, *message, *queue.make(order));
    return Posted::UnderWay;
}

Posted DeviceParts::claimed_discard(ReceiveQueue& queue, const void* context) {
    UnexpectedMessage* message = queue.find_claimed(context);
    if (message == nullptr) return Posted::Invalid;
    discard(queue, *message);
    return Posted::Done;
}

// The face.

Device::Device(std::unique_ptr<DeviceParts> parts) : parts_(std::move(parts)) {}
Device::~Device() = default;

base::Result<std::shared_ptr<Device>> Device::open() {
    auto parts = DeviceParts::open();
    if (!parts) {
        // Whoever asked for it may not be able to show the reason.
        base::log(base::LogLevel::Error, "no device for messages: " + parts.error().sentence);
        return std::move(parts).error();
    }
    return std::shared_ptr<Device>(new Device(std::move(parts).value()));
}

base::Result<std::unique_ptr<Endpoint>> Device::create_endpoint(const EndpointOptions& options) {
    auto parts = std::make_unique<EndpointParts>(*parts_, options);
    if (auto started = parts->start(options.name); !started) return std::move(started).error();
    return std::unique_ptr<Endpoint>(new Endpoint(std::move(parts)));
}

SharedReceiveQueue Device::create_receive_queue(Listener* listener) {
    return std::make_shared<ReceiveQueue>(listener);
}

Posted Device::receive(ReceiveQueue& queue, const ReceiveOrder& order) {
    const base::BiasedGuard guard(parts_->lock());
    return parts_->receive(queue, order);
}

bool Device::cancel(ReceiveQueue& queue, void* context) {
    const base::BiasedGuard guard(parts_->lock());
    return parts_->cancel(queue, context);
}

std::optional<Envelope> Device::peek(ReceiveQueue& queue, const ReceiveOrder& order, Peek how) {
    const base::BiasedGuard guard(parts_->lock());
    return parts_->peek(queue, order, how);
}

Posted Device::claimed_receive(ReceiveQueue& queue, const ReceiveOrder& order) {
    const base::BiasedGuard guard(parts_->lock());
    return parts_->claimed_receive(queue, order);
}

Posted Device::claimed_discard(ReceiveQueue& queue, void* context) {
    const base::BiasedGuard guard(parts_->lock());
    return parts_->claimed_discard(queue, context);
}

WindowTable& Device::windows() noexcept {
    return parts_->windows();
}

bool Device::progress() {
    return parts_->progress();
}

void Device::wait(base::Deadline deadline, std::uint64_t seen) {
    parts_->wait(deadline, seen);
}

std::uint64_t Device::tidings() const noexcept {
    return parts_->tidings();
}

void Device::wake() {
    parts_->wake();
}

void Device::arm() {
    parts_->arm();
}

bool Device::is_told_by_own_thread() const noexcept {
    return parts_->own_thread_speaks();
}

const Device::Limits& Device::limits() noexcept {
    static const Limits limits = [] {
        // What can not be read is refused when a device is opened, with the reason.
        const auto read = MessageSettings::read();
        const MessageSettings settings = read ? read.value() : MessageSettings{};
        return Limits{std::max<std::size_t>(settings.protocol.eager_bytes, 4096),
                      settings.protocol.eager_bytes,
                      (settings.vbuf_bytes - max_packet_head_bytes) / 2, most_pieces};
    }();
    return limits;
}

}  // namespace via::mvich
