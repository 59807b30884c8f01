// SPDX-License-Identifier: BSD-3-Clause
// Where what the message layer tells becomes entries of completion queues and counts: one place
// for endpoints and shared receive contexts.
#pragma once

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
        reset();
        object_ = object;
        if (object_ != nullptr) object_->references().add();
    }
    void reset() noexcept {
        if (object_ != nullptr) object_->references().remove();
        object_ = nullptr;
    }
    [[nodiscard]] Object* get() const noexcept { return object_; }
    Object* operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }

  private:
    Object* object_ = nullptr;
};

// The flags of a cookie are those that the entry will have, and FI_COMPLETION: without it there is
// an entry only if the operation fails.

/// The end of a transmit operation or a receive, for the queue of its side.
inline void note(CompletionQueue* queue, Counter* counter, const mvich::Completion& completion) {
    CompletionQueue::Entry entry{
        .context = completion.cookie.context,
        .flags = completion.cookie.flags & ~FI_COMPLETION,
        .length = completion.length,
        .buffer = completion.buffer,
        .data = completion.data,
        .tag = completion.tag,
        .source = completion.source,
    };
    if (completion.has_data) entry.flags |= FI_REMOTE_CQ_DATA;
    if (completion.last_of_buffer) entry.flags |= FI_MULTI_RECV;
    if (completion.status != mvich::Status::Ok) [[unlikely]] {
        if (counter != nullptr) counter->add_error(1);
        if (queue != nullptr) queue->add_error({entry, completion.status, completion.overflow});
        return;
    }
    if (counter != nullptr) counter->add(1);
    if (queue != nullptr && (completion.cookie.flags & FI_COMPLETION)) queue->add(entry);
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
    queue->add(entry);
}

}  // namespace via::ofi
