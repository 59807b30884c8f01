// SPDX-License-Identifier: BSD-3-Clause
// Where what the message layer tells becomes entries of completion queues and counts: one place
// for endpoints and shared receive contexts.
#pragma once

#include <atomic>
#include <cstdint>

#include <rdma/fabric.h>

#include "mvich/order.hpp"
#include "ofi/completion_queue.hpp"
#include "ofi/counter.hpp"

namespace via::ofi {

/// A queue or counter that is bound to something, and so is not closed.
template <class Object>
class Bound {
  public:
    Bound() = default;
    ~Bound() { reset(); }
    Bound(const Bound&) = delete;
    Bound& operator=(const Bound&) = delete;
    void set(Object* object) noexcept {
        if (object != nullptr) object->references().add();
        let_go(object_.exchange(object));
    }
    void reset() noexcept { let_go(release()); }
    /// Nobody finds it here any more. It is the caller's to let go of.
    [[nodiscard]] Object* release() noexcept { return object_.exchange(nullptr); }
    static void let_go(Object* object) noexcept {
        if (object != nullptr) object->references().remove();
    }
    [[nodiscard]] Object* get() const noexcept { return object_.load(std::memory_order_acquire); }
    Object* operator->() const noexcept { return get(); }
    explicit operator bool() const noexcept { return get() != nullptr; }

  private:
    /// Contexts of scalable endpoints, and counters, are bound to what is in use already.
    std::atomic<Object*> object_{nullptr};
};

// The flags of a cookie are those that the entry will have, and FI_COMPLETION: without it there is
// an entry only if the operation fails.

/// What the queue's entry says, all of it.
inline void write_entry(CompletionQueue::Entry& entry,
                        const mvich::Completion& completion) noexcept {
    std::uint64_t flags = completion.cookie.flags & ~FI_COMPLETION;
    if (completion.has_data) flags |= FI_REMOTE_CQ_DATA;
    if (completion.last_of_buffer) flags |= FI_MULTI_RECV;
    entry.context = completion.cookie.context;
    entry.flags = flags;
    entry.length = completion.length;
    entry.buffer = completion.buffer;
    entry.data = completion.data;
    entry.tag = completion.tag;
    entry.source = completion.source;
    entry.is_error = false;
}

[[gnu::noinline, gnu::cold]] inline void note_failure(CompletionQueue* queue, Counter* counter,
                                                      const mvich::Completion& completion) {
    if (counter != nullptr) counter->add_error(1);
    if (queue == nullptr) return;
    CompletionQueue::ErrorEntry error;
    write_entry(error.entry, completion);
    error.status = completion.status;
    error.overflow = completion.overflow;
    queue->add_error(error);
}

/// The end of a transmit operation or a receive, for the queue of its side.
inline void note(CompletionQueue* queue, Counter* counter, const mvich::Completion& completion) {
    if (completion.status != mvich::Status::Ok) [[unlikely]]
        return note_failure(queue, counter, completion);
    if (counter != nullptr) [[unlikely]]
        counter->add(1);
    if (queue != nullptr && (completion.cookie.flags & FI_COMPLETION))
        queue->add([&](CompletionQueue::Entry& entry) { write_entry(entry, completion); });
}

/// The buffer of a multi-receive is the program's again, without a message.
inline void note_spent(CompletionQueue* queue, const mvich::Completion& completion) {
    if (queue == nullptr) return;
    CompletionQueue::Entry entry{.context = completion.cookie.context, .flags = FI_MULTI_RECV};
    if (completion.status != mvich::Status::Ok) {
        entry.flags |= FI_RECV;
        queue->add_error({entry, completion.status, 0});
        return;
    }
    queue->add([&](CompletionQueue::Entry& place) { place = entry; });
}

}  // namespace via::ofi
