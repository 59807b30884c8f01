// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/poll_set.hpp"

#include <algorithm>
#include <memory>

#include "ofi/completion_queue.hpp"
#include "ofi/counter.hpp"
#include "ofi/domain.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {

Waitable* waitable_of(struct fid* fid) noexcept {
    switch (fid->fclass) {
        case FI_CLASS_CQ:
            return &static_cast<CompletionQueue&>(*reinterpret_cast<fid_cq*>(fid));
        case FI_CLASS_CNTR:
            return &static_cast<Counter&>(*reinterpret_cast<fid_cntr*>(fid));
        case FI_CLASS_EQ:
            return &static_cast<EventQueue&>(*reinterpret_cast<fid_eq*>(fid));
        default:
            return nullptr;
    }
}

PollSet::PollSet(Domain& domain)
    : fid_poll{}, domain_(domain), domain_reference_(&domain.references()) {
    fid.fclass = FI_CLASS_POLL;
    fid.ops = &object_operations;
    ops = &operations;
}

int PollSet::open(fid_domain* domain, fi_poll_attr* attributes, fid_poll** set) {
    return guarded([&] {
        if (attributes != nullptr && attributes->flags != 0) return -FI_EINVAL;
        *set = new PollSet(static_cast<Domain&>(*domain));
        return 0;
    });
}

int PollSet::poll(fid_poll* set, void** contexts, int count) {
    auto& self = static_cast<PollSet&>(*set);
    self.domain_.progress();
    const std::lock_guard guard(self.mutex_);
    int found = 0;
    for (const Member& member : self.members_) {
        if (found == count) break;
        if (member.waitable->ready()) contexts[found++] = member.fid->context;
    }
    return found;
}

int PollSet::add(fid_poll* set, struct fid* member, std::uint64_t flags) {
    return guarded([&] {
        auto& self = static_cast<PollSet&>(*set);
        Waitable* const waitable = waitable_of(member);
        if (waitable == nullptr || flags != 0) return -FI_EINVAL;
        const std::lock_guard guard(self.mutex_);
        self.members_.push_back({member, waitable});
        waitable->references().add();
        return 0;
    });
}

int PollSet::remove(fid_poll* set, struct fid* member, std::uint64_t) {
    auto& self = static_cast<PollSet&>(*set);
    const std::lock_guard guard(self.mutex_);
    const auto at = std::find_if(self.members_.begin(), self.members_.end(),
                                 [&](const Member& one) { return one.fid == member; });
    if (at == self.members_.end()) return -FI_EINVAL;
    at->waitable->references().remove();
    self.members_.erase(at);
    return 0;
}

int PollSet::close(struct fid* fid) {
    auto* self = &static_cast<PollSet&>(*reinterpret_cast<fid_poll*>(fid));
    for (const Member& member : self->members_)
        member.waitable->references().remove();
    delete self;
    return 0;
}

fi_ops_poll PollSet::operations = {
    .size = sizeof(fi_ops_poll),
    .poll = PollSet::poll,
    .poll_add = PollSet::add,
    .poll_del = PollSet::remove,
};

fi_ops PollSet::object_operations = {
    .size = sizeof(fi_ops),
    .close = PollSet::close,
    .bind = not_supported,
    .control = not_supported,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

}  // namespace via::ofi
