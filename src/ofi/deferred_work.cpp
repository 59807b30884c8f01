// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/deferred_work.hpp"

#include "ofi/atomic_ops.hpp"
#include "ofi/counter.hpp"
#include "ofi/domain.hpp"
#include "ofi/endpoint.hpp"
#include "ofi/errors.hpp"
#include "ofi/message_ops.hpp"
#include "ofi/rma_ops.hpp"
#include "ofi/tagged_ops.hpp"
#include "ofi/trigger_queue.hpp"

namespace via::ofi {
namespace {

using mvich::Remote;

/// Null: no counter of this domain.
Counter* counter_in(Domain& domain, fid_cntr* counter) noexcept {
    if (counter == nullptr || counter->fid.fclass != FI_CLASS_CNTR) return nullptr;
    auto* found = &static_cast<Counter&>(*counter);
    return &found->domain() == &domain ? found : nullptr;
}

/// Null: no endpoint of this domain.
EndpointHandle* handle_in(Domain& domain, fid_ep* endpoint) noexcept {
    if (endpoint == nullptr) return nullptr;
    const std::size_t kind = endpoint->fid.fclass;
    if (kind != FI_CLASS_EP && kind != FI_CLASS_TX_CTX && kind != FI_CLASS_RX_CTX) return nullptr;
    EndpointHandle& handle = handle_of(endpoint);
    return &handle.endpoint->domain() == &domain ? &handle : nullptr;
}

int change_counter(Domain& domain, const fi_op_cntr& given, Trigger trigger, bool sets) {
    Counter* const counter = counter_in(domain, given.cntr);
    if (counter == nullptr || trigger.completion != nullptr) return -FI_EINVAL;
    domain.triggers().add(trigger, CounterChange{counter, given.value, sets});
    return 0;
}

std::span<const fi_ioc> pieces_of(const fi_msg_fetch& fetch) noexcept {
    return {fetch.msg_iov, fetch.iov_count};
}

std::span<const fi_ioc> pieces_of(const fi_msg_compare& compare) noexcept {
    return {compare.msg_iov, compare.iov_count};
}

/// Calls defer(handle, operation, trigger) for an operation of an endpoint.
template <class Operation, class Defer>
int on_endpoint(Domain& domain, Operation operation, Trigger trigger, Defer defer) {
    EndpointHandle* const handle = handle_in(domain, operation.ep);
    if (handle == nullptr) return -FI_EINVAL;
    if (!handle->endpoint->has_plain_vector()) {
        const bool receives =
            trigger.work->op_type == FI_OP_RECV || trigger.work->op_type == FI_OP_TRECV;
        operation.msg.addr = receives ? handle->source_number(operation.msg.addr)
                                      : handle->destination_number(operation.msg.addr);
    }
    trigger.tells_endpoint = (operation.flags & FI_COMPLETION) != 0;
    return static_cast<int>(defer(*handle, operation, trigger));
}

int queue(Domain& domain, const fi_deferred_work& work) {
    Trigger trigger;
    trigger.counter = counter_in(domain, work.triggering_cntr);
    trigger.threshold = work.threshold;
    trigger.work = &work;
    if (trigger.counter == nullptr) return -FI_EINVAL;
    if (work.completion_cntr != nullptr) {
        trigger.completion = counter_in(domain, work.completion_cntr);
        if (trigger.completion == nullptr) return -FI_EINVAL;
    }
    const auto send = [](EndpointHandle& handle, const auto& operation, const Trigger& when) {
        return defer_send(handle, operation.msg, operation.flags, when);
    };
    // Receives that endpoints share are told to all of them.
    const auto receive = [](EndpointHandle& handle, const auto& operation,
                            const Trigger& when) -> ssize_t {
        if (handle.endpoint->shares_receives()) return -FI_ENOSYS;
        return defer_receive(handle, operation.msg, operation.flags, when);
    };
    const auto transfer = [&](EndpointHandle& handle, const fi_op_rma& operation,
                              const Trigger& when) {
        return defer_transfer(handle, work.op_type == FI_OP_READ ? Remote::Read : Remote::Write,
                              operation.msg, operation.flags, when);
    };
    switch (work.op_type) {
        case FI_OP_RECV:
            return on_endpoint(domain, *work.op.msg, trigger, receive);
        case FI_OP_SEND:
            return on_endpoint(domain, *work.op.msg, trigger, send);
        case FI_OP_TRECV:
            return on_endpoint(domain, *work.op.tagged, trigger, receive);
        case FI_OP_TSEND:
            return on_endpoint(domain, *work.op.tagged, trigger, send);
        case FI_OP_READ:
        case FI_OP_WRITE:
            return on_endpoint(domain, *work.op.rma, trigger, transfer);
        case FI_OP_ATOMIC:
            return on_endpoint(
                domain, *work.op.atomic, trigger,
                [](EndpointHandle& handle, const fi_op_atomic& operation, const Trigger& when) {
                    return defer_atomic(handle, Remote::Atomic, operation.msg, {}, {},
                                        operation.flags, when);
                });
        case FI_OP_FETCH_ATOMIC:
            return on_endpoint(domain, *work.op.fetch_atomic, trigger,
                               [](EndpointHandle& handle, const fi_op_fetch_atomic& operation,
                                  const Trigger& when) {
                                   return defer_atomic(handle, Remote::FetchAtomic, operation.msg,
                                                       {}, pieces_of(operation.fetch),
                                                       operation.flags, when);
                               });
        case FI_OP_COMPARE_ATOMIC:
            return on_endpoint(domain, *work.op.compare_atomic, trigger,
                               [](EndpointHandle& handle, const fi_op_compare_atomic& operation,
                                  const Trigger& when) {
                                   return defer_atomic(handle, Remote::CompareAtomic, operation.msg,
                                                       pieces_of(operation.compare),
                                                       pieces_of(operation.fetch), operation.flags,
                                                       when);
                               });
        case FI_OP_CNTR_SET:
        case FI_OP_CNTR_ADD:
            return change_counter(domain, *work.op.cntr, trigger, work.op_type == FI_OP_CNTR_SET);
    }
    return -FI_ENOSYS;
}

}  // namespace

int queue_work(Domain& domain, const fi_deferred_work* work) {
    return guarded([&] {
        // All members of the union are pointers.
        if (work == nullptr || work->op.msg == nullptr) return -FI_EINVAL;
        return queue(domain, *work);
    });
}

int cancel_work(Domain& domain, const fi_deferred_work* work) {
    TriggerQueue* const triggers = domain.existing_triggers();
    return work != nullptr && triggers != nullptr && triggers->cancel_work(work) ? 0 : -FI_ENOENT;
}

int flush_work(Domain& domain, const struct fid* counter) {
    if (counter != nullptr && counter->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
    if (TriggerQueue* const triggers = domain.existing_triggers())
        triggers->flush_work(counter == nullptr ? nullptr
                                                : &static_cast<const Counter&>(
                                                      *reinterpret_cast<const fid_cntr*>(counter)));
    return 0;
}

}  // namespace via::ofi
