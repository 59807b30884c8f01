// SPDX-License-Identifier: BSD-3-Clause
#include "base/counters.hpp"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <span>

#include "base/clock.hpp"

namespace via::base {

// Tools of another build may read the page: its layout changes only with format_version.
static_assert(sizeof(Counter) == 8 && std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(ViCounters) == 256);
static_assert(sizeof(ErrorRecord) == 256);
static_assert(offsetof(CountersPage, vi_slots_ready) == 12);
static_assert(offsetof(CountersPage, program) == 24);
static_assert(sizeof(LinkRecord) == 256);
static_assert(sizeof(LinkChange) == 192);
static_assert(offsetof(CountersPage, link_slots_ready) == 88);
static_assert(sizeof(MessageCounters) == 448);
static_assert(offsetof(CountersPage, messages) == 128);
static_assert(offsetof(CountersPage, errors) == 576);
static_assert(offsetof(CountersPage, vis) == 576 + CountersPage::error_slots * 256);

namespace {

constexpr std::size_t page_bytes = sizeof(CountersPage);

constexpr std::size_t end_of_slot(std::size_t index) {
    return offsetof(CountersPage, vis) + (index + 1) * sizeof(ViCounters);
}

constexpr std::size_t begin_of_changes = offsetof(CountersPage, link_changes);

constexpr std::size_t end_of_link(std::size_t index) {
    return offsetof(CountersPage, links) + (index + 1) * sizeof(LinkRecord);
}

template <std::size_t size>
void write_text(std::array<std::atomic<char>, size>& target, std::string_view text) noexcept {
    for (std::size_t i = 0; i < size; ++i)
        target[i].store(i < text.size() && i + 1 < size ? text[i] : '\0',
                        std::memory_order_release);
}

template <std::size_t size>
bool same_text(const std::array<std::atomic<char>, size>& stored, std::string_view text) noexcept {
    text = text.substr(0, size - 1);
    for (std::size_t i = 0; i < text.size(); ++i)
        if (stored[i].load(std::memory_order_relaxed) != text[i]) return false;
    return stored[text.size()].load(std::memory_order_relaxed) == '\0';
}

bool allocate(const UniqueFd& file, std::size_t offset, std::size_t bytes) noexcept {
    try {
        return allocate_range(file, offset, bytes).ok();
    } catch (...) {
        return false;  // no memory even for the sentence about it
    }
}

void move_count(Counter& to, Counter& from) noexcept {
    to.add(from.get());
    from.set(0);
}

Counters* counters_of_this_process = nullptr;

}  // namespace

std::string_view data_path_name(DataPath path) noexcept {
    switch (path) {
        case DataPath::Inline:
            return "inline";
        case DataPath::Ring:
            return "ring";
        case DataPath::Kmem:
            return "kmem";
        case DataPath::Cma:
            return "cma";
        case DataPath::Stream:
            return "stream";
        case DataPath::Packet:
            return "packet";
    }
    return "unknown";
}

Counters& Counters::get() {
    // Never destroyed: VIs may be given back while the process exits.
    static Counters& counters = *new Counters;
    return counters;
}

Counters::Counters() {
    if (!map_shared_page(nullptr)) map_private_page(nullptr);
    describe_process();
    counters_of_this_process = this;
    // A child must neither count on its parent's page nor inherit a lock that nobody will open.
    pthread_atfork([] { counters_of_this_process->mutex_.lock(); },
                   [] { counters_of_this_process->mutex_.unlock(); },
                   [] {
                       counters_of_this_process->start_anew_in_child();
                       counters_of_this_process->mutex_.unlock();
                   });
}

bool Counters::map_shared_page(void* wanted_address) noexcept {
    try {
        auto file = create_memory_file("viaduct-counters", page_bytes, Backing::Sparse,
                                       Sharing::OwnerWrites);
        if (!file) return false;
        if (!allocate(file.value(), 0, end_of_slot(0))) return false;
        void* address =
            mmap(wanted_address, page_bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | (wanted_address != nullptr ? MAP_FIXED : 0), file.value().get(), 0);
        if (address == MAP_FAILED) return false;
        // Kernels before 5.1 can not seal so; then tools could write, which harms only numbers.
        [[maybe_unused]] const auto sealed = seal_future_writes(file.value());
        page_ = static_cast<CountersPage*>(address);
        file_ = std::move(file).value();
        return true;
    } catch (...) {
        return false;
    }
}

void Counters::map_private_page(void* wanted_address) noexcept {
    file_.reset();
    void* address = mmap(
        wanted_address, page_bytes, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (wanted_address != nullptr ? MAP_FIXED : 0),
        -1, 0);
    if (address == MAP_FAILED) {
        // Not even that little address space: static memory has always been there.
        alignas(cache_line) static std::byte last_resort[page_bytes];
        address = last_resort;
    }
    page_ = static_cast<CountersPage*>(address);
}

void Counters::describe_process() noexcept {
    page_->version.store(CountersPage::format_version, std::memory_order_relaxed);
    page_->pid.store(getpid(), std::memory_order_relaxed);
    page_->started_wall_ns.store(wall_now(), std::memory_order_relaxed);
    page_->vi_slots_ready.store(1, std::memory_order_relaxed);
    write_text(page_->program, program_invocation_short_name);
    page_->magic.store(CountersPage::format_magic, std::memory_order_release);
}

/// Memory behind every byte of the slot, so that counting can never raise SIGBUS.
bool Counters::make_slot_ready(std::size_t index) noexcept {
    if (index < page_->vi_slots_ready.load(std::memory_order_relaxed)) return true;
    if (file_.valid() && !allocate(file_, end_of_slot(index - 1), sizeof(ViCounters))) return false;
    page_->vi_slots_ready.store(static_cast<std::uint32_t>(index + 1), std::memory_order_release);
    return true;
}

/// The same for a link's slot. The changes come before the first.
bool Counters::make_link_ready(std::size_t index) noexcept {
    if (index < page_->link_slots_ready.load(std::memory_order_relaxed)) return true;
    const std::size_t begin = index == 0 ? begin_of_changes : end_of_link(index - 1);
    if (file_.valid() && !allocate(file_, begin, end_of_link(index) - begin)) return false;
    page_->link_slots_ready.store(static_cast<std::uint32_t>(index + 1), std::memory_order_release);
    return true;
}

/// VIs that the parent had keep their slots here, at the same addresses, and count from zero.
void Counters::start_anew_in_child() noexcept {
    void* address = page_;
    std::size_t slots = page_->vi_slots_ready.load(std::memory_order_relaxed);
    const std::size_t links = page_->link_slots_ready.load(std::memory_order_relaxed);
    if (!map_shared_page(address) || (slots > 1 && !allocate(file_, 0, end_of_slot(slots - 1))) ||
        (links > 0 &&
         !allocate(file_, begin_of_changes, end_of_link(links - 1) - begin_of_changes)))
        map_private_page(address);
    changes_ = 0;
    describe_process();
    page_->link_slots_ready.store(static_cast<std::uint32_t>(links), std::memory_order_release);
    page_->vi_slots_ready.store(static_cast<std::uint32_t>(slots), std::memory_order_release);
}

ViCounters& Counters::take_slot(std::string_view device) noexcept {
    const std::lock_guard guard(mutex_);
    // The lowest free slot, so that the slots with memory behind them stay together.
    for (std::size_t word = 0; word < taken_.size(); ++word) {
        const std::uint64_t taken = taken_[word] | (word == 0 ? 1 : 0);
        if (taken == ~std::uint64_t{0}) continue;
        const auto bit = static_cast<unsigned>(std::countr_one(taken));
        const std::size_t index = word * 64 + bit;
        if (!make_slot_ready(index)) break;
        taken_[word] |= std::uint64_t{1} << bit;
        ViCounters& slot = page_->vis[index];
        write_text(slot.device, device);
        slot.in_use.set(1);
        return slot;
    }
    return page_->vis[0];
}

void Counters::set_device(ViCounters& slot, std::string_view device) noexcept {
    if (&slot != &page_->vis[0]) write_text(slot.device, device);
}

void Counters::give_back(ViCounters& slot) noexcept {
    const std::lock_guard guard(mutex_);
    const std::ptrdiff_t index = &slot - page_->vis.data();
    if (index <= 0 || index >= static_cast<std::ptrdiff_t>(CountersPage::vi_slots)) return;
    const auto word = static_cast<std::size_t>(index) / 64;
    const std::uint64_t bit = std::uint64_t{1} << (static_cast<std::size_t>(index) % 64);
    if ((taken_[word] & bit) == 0) return;
    slot.in_use.set(0);
    ViCounters& totals = page_->vis[0];
    for (std::size_t path = 0; path < data_paths; ++path) {
        move_count(totals.sent_messages[path], slot.sent_messages[path]);
        move_count(totals.received_messages[path], slot.received_messages[path]);
    }
    move_count(totals.sent_bytes, slot.sent_bytes);
    move_count(totals.received_bytes, slot.received_bytes);
    move_count(totals.rdma_writes, slot.rdma_writes);
    move_count(totals.rdma_reads, slot.rdma_reads);
    move_count(totals.rdma_bytes, slot.rdma_bytes);
    move_count(totals.send_stalls, slot.send_stalls);
    move_count(totals.big_ring_posts, slot.big_ring_posts);
    move_count(totals.big_ring_refills, slot.big_ring_refills);
    move_count(totals.completed_in_error, slot.completed_in_error);
    move_count(totals.sleeps, slot.sleeps);
    move_count(totals.wakes_sent, slot.wakes_sent);
    slot.state.set(0);
    slot.peer_pid.set(0);
    slot.reliability.set(0);
    slot.link_policy.set(0);
    write_text(slot.device, {});
    taken_[word] &= ~bit;
}

LinkRecord* Counters::take_link(std::string_view text, const ViCounters* owner) noexcept {
    const std::lock_guard guard(mutex_);
    for (std::size_t word = 0; word < taken_links_.size(); ++word) {
        if (taken_links_[word] == ~std::uint64_t{0}) continue;
        const auto bit = static_cast<unsigned>(std::countr_one(taken_links_[word]));
        const std::size_t index = word * 64 + bit;
        if (!make_link_ready(index)) break;
        taken_links_[word] |= std::uint64_t{1} << bit;
        LinkRecord& link = page_->links[index];
        write_text(link.text, text);
        const auto slots = std::span<const ViCounters>(page_->vis);
        const bool known = owner >= &slots.front() && owner <= &slots.back();
        link.vi_slot.set(known ? static_cast<std::uint64_t>(owner - slots.data()) : 0);
        link.in_use.set(1);
        return &link;
    }
    return nullptr;
}

void Counters::give_back(LinkRecord& link) noexcept {
    const std::lock_guard guard(mutex_);
    const auto index = static_cast<std::size_t>(&link - page_->links.data());
    link.in_use.set(0);
    for (Counter* counter :
         {&link.vi_slot, &link.state, &link.sent_packets, &link.sent_bytes, &link.received_packets,
          &link.received_bytes, &link.lost_packets, &link.duplicate_packets, &link.timeouts,
          &link.round_trip_ns, &link.least_round_trip_ns, &link.window_bytes, &link.bytes_in_flight,
          &link.bytes_per_second, &link.changes})
        counter->set(0);
    write_text(link.text, {});
    taken_links_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
}

void Counters::record_change(const LinkRecord& link, std::uint64_t from,
                             std::uint64_t to) noexcept {
    const std::lock_guard guard(mutex_);
    const std::uint64_t number = ++changes_;
    LinkChange& change = page_->link_changes[number % CountersPage::change_slots];
    change.number.store(0, std::memory_order_relaxed);
    for (std::size_t i = 0; i < link.text.size(); ++i)
        change.text[i].store(link.text[i].load(std::memory_order_relaxed),
                             std::memory_order_release);
    change.wall_ns.store(wall_now(), std::memory_order_relaxed);
    change.vi_slot.set(link.vi_slot.get());
    change.from.set(from);
    change.to.set(to);
    change.number.store(number, std::memory_order_release);
}

void Counters::record_error(std::string_view sentence) noexcept {
    const std::lock_guard guard(mutex_);
    const Nanoseconds now = wall_now();
    ErrorRecord* chosen = nullptr;
    for (ErrorRecord& record : page_->errors) {
        const std::uint64_t count = record.count.load(std::memory_order_relaxed);
        if (count != 0 && same_text(record.text, sentence)) {
            record.last_wall_ns.store(now, std::memory_order_relaxed);
            record.count.store(count + 1, std::memory_order_release);
            return;
        }
        // A free record, or else the one that has been quiet for the longest time.
        if (chosen != nullptr && chosen->count.load(std::memory_order_relaxed) == 0) continue;
        if (chosen == nullptr || count == 0 ||
            record.last_wall_ns.load(std::memory_order_relaxed) <
                chosen->last_wall_ns.load(std::memory_order_relaxed))
            chosen = &record;
    }
    chosen->count.store(0, std::memory_order_relaxed);
    // Writes with release order: a reader that sees new text also sees the count of zero.
    write_text(chosen->text, sentence);
    chosen->first_wall_ns.store(now, std::memory_order_relaxed);
    chosen->last_wall_ns.store(now, std::memory_order_relaxed);
    chosen->count.store(1, std::memory_order_release);
}

}  // namespace via::base
