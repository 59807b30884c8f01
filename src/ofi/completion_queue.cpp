// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/completion_queue.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>

#include "ofi/domain.hpp"
#include "ofi/errors.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

constexpr std::size_t default_entries = 256;
constexpr std::size_t most_entries_at_first = 1 << 16;

using Entry = CompletionQueue::Entry;

inline void write_form(fi_cq_entry& to, const Entry& from) noexcept {
    to.op_context = from.context;
}
inline void write_form(fi_cq_msg_entry& to, const Entry& from) noexcept {
    to = {from.context, from.flags, from.length};
}
inline void write_form(fi_cq_data_entry& to, const Entry& from) noexcept {
    to = {from.context, from.flags, from.length, from.buffer, from.data};
}
inline void write_form(fi_cq_tagged_entry& to, const Entry& from) noexcept {
    to = {from.context, from.flags, from.length, from.buffer, from.data, from.tag};
}

fi_addr_t address_of(mvich::Peer source) noexcept {
    return source >= mvich::unknown_peer ? FI_ADDR_NOTAVAIL : source;
}

CompletionQueue& queue_of(fid_cq* queue) noexcept {
    return static_cast<CompletionQueue&>(*queue);
}

}  // namespace

CompletionQueue::CompletionQueue(Domain& domain, const fi_cq_attr& attributes, void* context)
    : fid_cq{}, domain_(domain), domain_reference_(&domain.references()) {
    const std::size_t entries = std::clamp<std::size_t>(attributes.size, 1, most_entries_at_first);
    ring_.resize(std::bit_ceil(attributes.size == 0 ? default_entries : entries));
    by_threshold_ = attributes.wait_cond == FI_CQ_COND_THRESHOLD;
    fid.fclass = FI_CLASS_CQ;
    fid.context = context;
    fid.ops = &object_operations;
    switch (attributes.format) {
        case FI_CQ_FORMAT_CONTEXT:
            ops = &operations<fi_cq_entry>;
            break;
        case FI_CQ_FORMAT_MSG:
            ops = &operations<fi_cq_msg_entry>;
            break;
        case FI_CQ_FORMAT_DATA:
            ops = &operations<fi_cq_data_entry>;
            break;
        default:
            ops = &operations<fi_cq_tagged_entry>;
    }
}

int CompletionQueue::open(fid_domain* domain, fi_cq_attr* attributes, fid_cq** queue,
                          void* context) {
    return guarded([&] {
        fi_cq_attr wanted{};
        if (attributes != nullptr) wanted = *attributes;
        if (wanted.format > FI_CQ_FORMAT_TAGGED) return -FI_ENOSYS;
        if (wanted.format == FI_CQ_FORMAT_UNSPEC) wanted.format = FI_CQ_FORMAT_TAGGED;
        std::unique_ptr<CompletionQueue> made(
            new CompletionQueue(static_cast<Domain&>(*domain), wanted, context));
        if (const int error = made->open_wait(wanted.wait_obj, wanted.wait_set)) return error;
        if (attributes != nullptr) {
            attributes->format = wanted.format;
            attributes->size = std::max(attributes->size, made->ring_.size());
        }
        *queue = made.release();
        return 0;
    });
}

/// The lock is held.
bool CompletionQueue::grow() noexcept {
    try {
        std::vector<Entry> larger(2 * ring_.size());
        for (std::size_t at = head_; at != tail_; ++at)
            larger[at & (larger.size() - 1)] = ring_[at & (ring_.size() - 1)];
        ring_ = std::move(larger);
        return true;
    } catch (const std::bad_alloc&) {
        overrun_ = true;
        wait_object().signal_if_wanted();
        return false;
    }
}

void CompletionQueue::add_error(const ErrorEntry& error) noexcept {
    const base::BiasedGuard guard(lock_);
    try {
        errors_.push_back(error);
    } catch (const std::bad_alloc&) {
        overrun_ = true;
        wait_object().signal_if_wanted();
        return;
    }
    add_locked([](Entry& marker) { marker.is_error = true; });
}

template <class Form>
ssize_t CompletionQueue::take(Form* to, std::size_t count, fi_addr_t* sources) noexcept {
    const base::BiasedGuard guard(lock_);
    std::size_t head = head_.load(std::memory_order_relaxed);
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (head == tail) return overrun_ ? -FI_EOVERRUN : -FI_EAGAIN;
    std::size_t taken = 0;
    for (; taken < count && head != tail; ++taken, ++head) {
        const Entry& entry = ring_[head & (ring_.size() - 1)];
        if (entry.is_error) [[unlikely]]
            break;
        write_form(to[taken], entry);
        if (sources != nullptr) sources[taken] = address_of(entry.source);
    }
    head_.store(head, std::memory_order_relaxed);
    just_read_.store(true, std::memory_order_relaxed);
    if (taken != 0 || count == 0) return static_cast<ssize_t>(taken);
    return -FI_EAVAIL;
}

template <class Form>
ssize_t CompletionQueue::read_now(Form* to, std::size_t count, fi_addr_t* sources) noexcept {
    if (count != 0) [[likely]] {
        if (!looks_empty()) return take(to, count, sources);
        // Who takes entries until there are none has a message to look at: this last read is on its
        // way, and progress would take longer than all else of it.
        if (just_read_.load(std::memory_order_relaxed)) {
            just_read_.store(false, std::memory_order_relaxed);
            return -FI_EAGAIN;
        }
    }
    domain_.progress();
    return looks_empty() ? -FI_EAGAIN : take(to, count, sources);
}

template <class Form>
ssize_t CompletionQueue::read(fid_cq* queue, void* to, std::size_t count) {
    return queue_of(queue).read_now(static_cast<Form*>(to), count, nullptr);
}

template <class Form>
ssize_t CompletionQueue::read_from(fid_cq* queue, void* to, std::size_t count, fi_addr_t* sources) {
    return queue_of(queue).read_now(static_cast<Form*>(to), count, sources);
}

bool CompletionQueue::has_at_least(std::size_t count) noexcept {
    const base::BiasedGuard guard(lock_);
    return tail_ - head_ >= count || overrun_ || !errors_.empty();
}

template <class Form>
ssize_t CompletionQueue::sleeping_read_from(fid_cq* queue, void* to, std::size_t count,
                                            fi_addr_t* sources, const void* condition,
                                            int timeout) {
    CompletionQueue& self = queue_of(queue);
    const base::Deadline deadline =
        timeout < 0 ? base::Deadline::never()
                    : base::Deadline::after_milliseconds(static_cast<unsigned>(timeout));
    std::size_t threshold = 1;
    if (self.by_threshold_ && condition != nullptr)
        threshold = std::clamp<std::size_t>(*static_cast<const std::size_t*>(condition), 1,
                                            std::max<std::size_t>(count, 1));
    for (;;) {
        const std::uint64_t seen = self.domain_.device().tidings();
        if (self.has_at_least(threshold)) return self.take(static_cast<Form*>(to), count, sources);
        if (self.signalled_.exchange(false)) return -FI_EAGAIN;
        if (self.domain_.progress()) continue;
        if (deadline.expired()) return self.take(static_cast<Form*>(to), count, sources);
        if (self.wait_object().kind() == FI_WAIT_YIELD)
            sched_yield();
        else
            self.domain_.device().wait(deadline, seen);
    }
}

template <class Form>
ssize_t CompletionQueue::sleeping_read(fid_cq* queue, void* to, std::size_t count,
                                       const void* condition, int timeout) {
    return sleeping_read_from<Form>(queue, to, count, nullptr, condition, timeout);
}

ssize_t CompletionQueue::read_error(fid_cq* queue, fi_cq_err_entry* to, std::uint64_t) {
    CompletionQueue& self = queue_of(queue);
    const base::BiasedGuard guard(self.lock_);
    if (self.head_ == self.tail_ || !self.ring_[self.head_ & (self.ring_.size() - 1)].is_error) {
        if (!self.overrun_) return -FI_EAGAIN;
        self.overrun_ = false;
        *to = {};
        to->err = FI_EOVERRUN;
        return 1;
    }
    const ErrorEntry error = self.errors_.front();
    self.errors_.pop_front();
    ++self.head_;
    to->op_context = error.entry.context;
    to->flags = error.entry.flags;
    to->len = error.entry.length;
    to->buf = error.entry.buffer;
    to->data = error.entry.data;
    to->tag = error.entry.tag;
    to->olen = error.overflow;
    to->err = error_number(error.status);
    to->prov_errno = static_cast<int>(error.status);
    to->err_data_size = 0;  // nothing more is known; a program's own buffer stays as it is
    return 1;
}

int CompletionQueue::signal(fid_cq* queue) {
    CompletionQueue& self = queue_of(queue);
    self.signalled_.store(true);
    {
        const base::BiasedGuard guard(self.lock_);
        self.wait_object().signal();
    }
    self.domain_.device().wake();
    return 0;
}

const char* CompletionQueue::error_text(fid_cq*, int provider_error, const void*, char* buffer,
                                        std::size_t bytes) {
    const char* text = sentence(provider_error);
    if (buffer == nullptr || bytes == 0) return text;
    std::snprintf(buffer, bytes, "%s", text);
    return buffer;
}

bool CompletionQueue::ready() {
    return has_at_least(1);
}

void CompletionQueue::prepare_to_sleep() {
    {
        const base::BiasedGuard guard(lock_);
        wait_object().prepare();
    }
    domain_.device().arm();
}

void CompletionQueue::progress() {
    domain_.progress();
}

int CompletionQueue::close(struct fid* fid) {
    auto* self = &static_cast<CompletionQueue&>(*reinterpret_cast<fid_cq*>(fid));
    if (self->references().any()) return -FI_EBUSY;
    delete self;
    return 0;
}

int CompletionQueue::control(struct fid* fid, int command, void* argument) {
    const auto* self = &static_cast<CompletionQueue&>(*reinterpret_cast<fid_cq*>(fid));
    return self->wait_object().control(command, argument);
}

template <class Form>
fi_ops_cq CompletionQueue::operations = {
    .size = sizeof(fi_ops_cq),
    .read = CompletionQueue::read<Form>,
    .readfrom = CompletionQueue::read_from<Form>,
    .readerr = CompletionQueue::read_error,
    .sread = CompletionQueue::sleeping_read<Form>,
    .sreadfrom = CompletionQueue::sleeping_read_from<Form>,
    .signal = CompletionQueue::signal,
    .strerror = CompletionQueue::error_text,
};

fi_ops CompletionQueue::object_operations = {
    .size = sizeof(fi_ops),
    .close = CompletionQueue::close,
    .bind = not_supported,
    .control = CompletionQueue::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

}  // namespace via::ofi
