// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/wait_set.hpp"

#include <algorithm>
#include <memory>

#include "ofi/errors.hpp"
#include "ofi/fabric.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {

Waitable::~Waitable() {
    if (set_ != nullptr) set_->remove(*this);
}

int Waitable::open_wait(fi_wait_obj kind, fid_wait* set) {
    if (kind != FI_WAIT_SET) return own_.open(kind);
    if (set == nullptr) return -FI_EINVAL;
    set_ = static_cast<WaitSet*>(set);
    object_ = &set_->object();
    set_->add(*this);
    return 0;
}

WaitSet::WaitSet(Fabric& fabric) : fid_wait{}, fabric_(&fabric.references()) {
    fid.fclass = FI_CLASS_WAIT;
    fid.ops = &object_operations;
    ops = &operations;
}

int WaitSet::open(fid_fabric* fabric, fi_wait_attr* attributes, fid_wait** set) {
    return guarded([&] {
        const fi_wait_obj kind = attributes != nullptr ? attributes->wait_obj : FI_WAIT_UNSPEC;
        if (kind == FI_WAIT_SET || kind == FI_WAIT_NONE) return -FI_EINVAL;
        std::unique_ptr<WaitSet> made(new WaitSet(static_cast<Fabric&>(*fabric)));
        if (const int error = made->object_.open(kind == FI_WAIT_YIELD ? FI_WAIT_FD : kind))
            return error;
        *set = made.release();
        return 0;
    });
}

void WaitSet::add(Waitable& member) {
    const std::lock_guard guard(mutex_);
    members_.push_back(&member);
}

void WaitSet::remove(Waitable& member) noexcept {
    const std::lock_guard guard(mutex_);
    std::erase(members_, &member);
}

bool WaitSet::any_ready() {
    return std::any_of(members_.begin(), members_.end(),
                       [](Waitable* member) { return member->ready(); });
}

int WaitSet::try_wait() {
    const std::lock_guard guard(mutex_);
    if (any_ready()) return -FI_EAGAIN;
    for (Waitable* member : members_)
        member->prepare_to_sleep();
    if (members_.empty()) object_.prepare();
    return any_ready() ? -FI_EAGAIN : 0;
}

int WaitSet::wait(fid_wait* set, int timeout) {
    auto& self = static_cast<WaitSet&>(*set);
    const base::Deadline deadline =
        timeout < 0 ? base::Deadline::never()
                    : base::Deadline::after_milliseconds(static_cast<unsigned>(timeout));
    for (;;) {
        if (self.try_wait() != 0) return 0;
        if (deadline.expired()) return -FI_ETIMEDOUT;
        self.object_.sleep(deadline);
    }
}

int WaitSet::close(struct fid* fid) {
    auto* self = &static_cast<WaitSet&>(*reinterpret_cast<fid_wait*>(fid));
    {
        const std::lock_guard guard(self->mutex_);
        if (!self->members_.empty()) return -FI_EBUSY;
    }
    delete self;
    return 0;
}

int WaitSet::control(struct fid* fid, int command, void* argument) {
    const auto* self = &static_cast<WaitSet&>(*reinterpret_cast<fid_wait*>(fid));
    return self->object_.control(command, argument);
}

fi_ops WaitSet::object_operations = {
    .size = sizeof(fi_ops),
    .close = WaitSet::close,
    .bind = not_supported,
    .control = WaitSet::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_wait WaitSet::operations = {.size = sizeof(fi_ops_wait), .wait = WaitSet::wait};

}  // namespace via::ofi
