// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/domain.hpp"

#include <cstring>

#include <rdma/fi_atomic.h>

#include "ofi/address_vector.hpp"
#include "ofi/atomic_ops.hpp"
#include "ofi/completion_queue.hpp"
#include "ofi/counter.hpp"
#include "ofi/deferred_work.hpp"
#include "ofi/endpoint.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/fabric.hpp"
#include "ofi/memory_region.hpp"
#include "ofi/poll_set.hpp"
#include "ofi/provider.hpp"
#include "ofi/scalable_endpoint.hpp"
#include "ofi/shared_context.hpp"
#include "ofi/stubs.hpp"
#include "ofi/trigger_queue.hpp"

namespace via::ofi {

Domain::Domain(Fabric& fabric, const fi_info& info, std::shared_ptr<mvich::Device> device,
               void* context)
    : fid_domain{},
      fabric_(fabric),
      fabric_reference_(&fabric.references()),
      device_(std::move(device)),
      address_format_(info.addr_format),
      mode_(region_mode(info.domain_attr->mr_mode)) {
    fid.fclass = FI_CLASS_DOMAIN;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
    mr = &region_operations;
}

Domain::~Domain() {
    if (event_queue_ != nullptr) event_queue_->references().remove();
}

int Domain::open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
    return guarded([&] {
        if (info == nullptr || info->domain_attr == nullptr) return -FI_EINVAL;
        auto device = mvich::Device::open();
        if (!device) {
            VIA_OFI_WARN(FI_LOG_DOMAIN, "fi_domain: %s\n", device.error().sentence.c_str());
            return -error_number(device.error().code);
        }
        *domain =
            new Domain(static_cast<Fabric&>(*fabric), *info, std::move(device).value(), context);
        return 0;
    });
}

TriggerQueue& Domain::triggers() {
    const std::lock_guard guard(triggers_mutex_);
    if (!triggers_) {
        triggers_ = std::make_unique<TriggerQueue>(*this);
        existing_triggers_.store(triggers_.get(), std::memory_order_release);
    }
    return *triggers_;
}

void Domain::add_counting(MemoryRegion& region) {
    const std::lock_guard guard(counting_mutex_);
    counting_[region.key] = &region;
    anything_counts_.store(true, std::memory_order_release);
}

void Domain::remove_counting(MemoryRegion& region) noexcept {
    const std::lock_guard guard(counting_mutex_);
    const auto at = counting_.find(region.key);
    if (at != counting_.end() && at->second == &region) counting_.erase(at);
    anything_counts_.store(!counting_.empty(), std::memory_order_release);
}

void Domain::count_remote(std::uint64_t key, bool is_write) noexcept {
    if (!anything_counts_.load(std::memory_order_acquire)) return;
    const std::lock_guard guard(counting_mutex_);
    const auto at = counting_.find(key);
    if (at != counting_.end()) at->second->count(is_write);
}

int Domain::close(struct fid* fid) {
    auto* self = &static_cast<Domain&>(*reinterpret_cast<fid_domain*>(fid));
    if (self->references_.any()) return -FI_EBUSY;
    delete self;
    return 0;
}

int Domain::bind(struct fid* fid, struct fid* what, std::uint64_t) {
    auto* self = &static_cast<Domain&>(*reinterpret_cast<fid_domain*>(fid));
    if (what->fclass != FI_CLASS_EQ || self->event_queue_ != nullptr) return -FI_EINVAL;
    self->event_queue_ = &static_cast<EventQueue&>(*reinterpret_cast<fid_eq*>(what));
    self->event_queue_->references().add();
    return 0;
}

/// Raw keys are plain keys: nothing is mapped.
int Domain::control(struct fid* fid, int command, void* argument) {
    auto* self = &static_cast<Domain&>(*reinterpret_cast<fid_domain*>(fid));
    switch (command) {
        case FI_MAP_RAW_MR: {
            const auto& map = *static_cast<struct fi_mr_map_raw*>(argument);
            if (map.key_size != sizeof *map.key) return -FI_EINVAL;
            std::memcpy(map.key, map.raw_key, sizeof *map.key);
            return 0;
        }
        case FI_UNMAP_KEY:
            return 0;
        case FI_QUEUE_WORK:
            return queue_work(*self, static_cast<const fi_deferred_work*>(argument));
        case FI_CANCEL_WORK:
            return cancel_work(*self, static_cast<const fi_deferred_work*>(argument));
        case FI_FLUSH_WORK:
            return flush_work(*self, static_cast<const struct fid*>(argument));
        default:
            return -FI_ENOSYS;
    }
}

int Domain::query_atomic(fid_domain*, fi_datatype datatype, fi_op operation,
                         fi_atomic_attr* attributes, std::uint64_t flags) {
    mvich::AtomicUse use = mvich::AtomicUse::Plain;
    if (flags & FI_FETCH_ATOMIC) use = mvich::AtomicUse::Fetch;
    if (flags & FI_COMPARE_ATOMIC) use = mvich::AtomicUse::Compare;
    const AtomicSupport support = atomic_support(use, datatype, operation);
    if (support.count == 0) return -FI_EOPNOTSUPP;
    attributes->count = support.count;
    attributes->size = support.element_bytes;
    return 0;
}

fi_ops Domain::object_operations = {
    .size = sizeof(fi_ops),
    .close = Domain::close,
    .bind = Domain::bind,
    .control = Domain::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_domain Domain::operations = {
    .size = sizeof(fi_ops_domain),
    .av_open = AddressVector::open,
    .cq_open = CompletionQueue::open,
    .endpoint = Endpoint::open,
    .scalable_ep = ScalableEndpoint::open,
    .cntr_open = Counter::open,
    .poll_open = PollSet::open,
    .stx_ctx = SharedTransmitContext::open,
    .srx_ctx = SharedReceiveContext::open,
    .query_atomic = Domain::query_atomic,
    .query_collective = not_supported,
    .endpoint2 = Endpoint::open_with_flags,
};

fi_ops_mr Domain::region_operations = {
    .size = sizeof(fi_ops_mr),
    .reg = MemoryRegion::open,
    .regv = MemoryRegion::open_pieces,
    .regattr = MemoryRegion::open_attributes,
};

}  // namespace via::ofi
