// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/counter.hpp"

#include <sched.h>

#include <memory>

#include "ofi/domain.hpp"
#include "ofi/errors.hpp"
#include "ofi/stubs.hpp"
#include "ofi/trigger_queue.hpp"

namespace via::ofi {
namespace {

Counter& counter_of(fid_cntr* counter) noexcept {
    return static_cast<Counter&>(*counter);
}

}  // namespace

Counter::Counter(Domain& domain, void* context)
    : fid_cntr{}, domain_(domain), domain_reference_(&domain.references()) {
    fid.fclass = FI_CLASS_CNTR;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
}

int Counter::open(fid_domain* domain, fi_cntr_attr* attributes, fid_cntr** counter, void* context) {
    return guarded([&] {
        fi_cntr_attr wanted{};
        if (attributes != nullptr) wanted = *attributes;
        if (wanted.events != FI_CNTR_EVENTS_COMP || wanted.flags != 0) return -FI_ENOSYS;
        std::unique_ptr<Counter> made(new Counter(static_cast<Domain&>(*domain), context));
        if (const int error = made->open_wait(wanted.wait_obj, wanted.wait_set)) return error;
        *counter = made.release();
        return 0;
    });
}

std::uint64_t Counter::read(fid_cntr* counter) {
    Counter& self = counter_of(counter);
    self.make_progress();
    return self.value();
}

std::uint64_t Counter::read_errors(fid_cntr* counter) {
    Counter& self = counter_of(counter);
    self.make_progress();
    return self.errors_.load(std::memory_order_acquire);
}

void Counter::trip() noexcept {
    if (TriggerQueue* const triggers = domain_.existing_triggers()) triggers->reached(*this);
}

bool Counter::make_progress() {
    const bool moved = domain_.progress();
    if (TriggerQueue* const triggers = domain_.existing_triggers()) triggers->start_due();
    return moved;
}

void Counter::changed_by_program() noexcept {
    domain_.device().wake();
    if (TriggerQueue* const triggers = domain_.existing_triggers()) triggers->start_due();
}

int Counter::add_value(fid_cntr* counter, std::uint64_t value) {
    counter_of(counter).add(value);
    counter_of(counter).changed_by_program();
    return 0;
}

int Counter::set_value(fid_cntr* counter, std::uint64_t value) {
    counter_of(counter).set(value);
    counter_of(counter).changed_by_program();
    return 0;
}

int Counter::add_error_value(fid_cntr* counter, std::uint64_t value) {
    counter_of(counter).add_error(value);
    counter_of(counter).changed_by_program();
    return 0;
}

int Counter::set_error_value(fid_cntr* counter, std::uint64_t value) {
    counter_of(counter).errors_.store(value);
    counter_of(counter).changed();
    counter_of(counter).changed_by_program();
    return 0;
}

int Counter::wait(fid_cntr* counter, std::uint64_t threshold, int timeout) {
    Counter& self = counter_of(counter);
    const base::Deadline deadline =
        timeout < 0 ? base::Deadline::never()
                    : base::Deadline::after_milliseconds(static_cast<unsigned>(timeout));
    const std::uint64_t errors = self.errors_.load(std::memory_order_acquire);
    for (;;) {
        const std::uint64_t seen = self.domain_.device().tidings();
        if (self.value() >= threshold) return 0;
        if (self.errors_.load(std::memory_order_acquire) != errors) return -FI_EAVAIL;
        if (self.make_progress()) continue;
        if (deadline.expired()) return -FI_ETIMEDOUT;
        if (self.wait_object().kind() == FI_WAIT_YIELD)
            sched_yield();
        else
            self.domain_.device().wait(deadline, seen);
    }
}

bool Counter::ready() {
    const std::uint64_t now = value() + errors_.load(std::memory_order_acquire);
    return last_told_.exchange(now) != now;
}

void Counter::prepare_to_sleep() {
    wait_object().prepare();
    domain_.device().arm();
}

void Counter::progress() {
    make_progress();
}

int Counter::close(struct fid* fid) {
    auto* self = &static_cast<Counter&>(*reinterpret_cast<fid_cntr*>(fid));
    if (self->references().any())
        if (TriggerQueue* const triggers = self->domain_.existing_triggers())
            triggers->let_finish();
    if (self->references().any()) return -FI_EBUSY;
    delete self;
    return 0;
}

int Counter::control(struct fid* fid, int command, void* argument) {
    const auto* self = &static_cast<Counter&>(*reinterpret_cast<fid_cntr*>(fid));
    if (command != FI_GETOPSFLAG) return self->wait_object().control(command, argument);
    *static_cast<std::uint64_t*>(argument) = 0;
    return 0;
}

fi_ops_cntr Counter::operations = {
    .size = sizeof(fi_ops_cntr),
    .read = Counter::read,
    .readerr = Counter::read_errors,
    .add = Counter::add_value,
    .set = Counter::set_value,
    .wait = Counter::wait,
    .adderr = Counter::add_error_value,
    .seterr = Counter::set_error_value,
};

fi_ops Counter::object_operations = {
    .size = sizeof(fi_ops),
    .close = Counter::close,
    .bind = not_supported,
    .control = Counter::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

}  // namespace via::ofi
