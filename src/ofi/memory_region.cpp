// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/memory_region.hpp"

#include <cstring>
#include <memory>

#include "ofi/domain.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"

namespace via::ofi {
namespace {

MemoryRegion& region_of(struct fid* fid) noexcept {
    return static_cast<MemoryRegion&>(*reinterpret_cast<fid_mr*>(fid));
}

}  // namespace

MemoryRegion::MemoryRegion(Domain& domain, void* context)
    : fid_mr{}, domain_(domain), domain_reference_(&domain.references()) {
    fid.fclass = FI_CLASS_MR;
    fid.context = context;
    fid.ops = &object_operations;
    mem_desc = this;
}

MemoryRegion::~MemoryRegion() {
    if (registered_) domain_.device().windows().remove(key);
    if (writes_ != nullptr || reads_ != nullptr) domain_.remove_counting(*this);
    if (writes_ != nullptr) writes_->references().remove();
    if (reads_ != nullptr) reads_->references().remove();
}

int MemoryRegion::open_attributes(struct fid* domain, const fi_mr_attr* attributes,
                                  std::uint64_t flags, fid_mr** region) {
    return guarded([&] {
        if (domain->fclass != FI_CLASS_DOMAIN || attributes == nullptr) return -FI_EINVAL;
        auto& owner = static_cast<Domain&>(*reinterpret_cast<fid_domain*>(domain));
        if (attributes->iov_count > max_region_pieces || attributes->offset != 0 ||
            attributes->iface != FI_HMEM_SYSTEM)
            return -FI_EINVAL;
        constexpr std::uint64_t known = FI_RMA_EVENT | FI_RMA_PMEM | FI_HMEM_DEVICE_ONLY;
        if (flags & ~known) return -FI_EBADFLAGS;

        std::unique_ptr<MemoryRegion, void (*)(MemoryRegion*)> made(
            new MemoryRegion(owner, attributes->context), [](MemoryRegion* one) { delete one; });
        mvich::WindowTable::Window window;
        for (std::size_t at = 0; at < attributes->iov_count; ++at)
            window.pieces.push_back(attributes->mr_iov[at]);
        if (owner.mode().virtual_addresses && !window.pieces.empty())
            made->base_ = reinterpret_cast<std::uint64_t>(window.pieces.front().iov_base);
        window.first_address = made->base_;
        if (attributes->access & FI_REMOTE_READ) window.rights |= mvich::window_read;
        if (attributes->access & FI_REMOTE_WRITE) window.rights |= mvich::window_write;

        mvich::WindowTable& windows = owner.device().windows();
        for (bool added = false; !added;) {
            made->key =
                owner.mode().provider_keys ? windows.unused_key() : attributes->requested_key;
            added = windows.add(made->key, window);
            if (!added && !owner.mode().provider_keys) {
                VIA_OFI_WARN(FI_LOG_MR, "fi_mr_reg: the key 0x%lx is taken in this domain\n",
                             static_cast<unsigned long>(made->key));
                return -FI_ENOKEY;
            }
        }
        made->registered_ = true;
        *region = made.release();
        if (EventQueue* const events = owner.event_queue()) {
            const fi_eq_entry entry{&(*region)->fid, attributes->context, 0};
            events->add(FI_MR_COMPLETE, &entry, sizeof entry);
        }
        return 0;
    });
}

int MemoryRegion::open_pieces(struct fid* domain, const iovec* pieces, std::size_t count,
                              std::uint64_t access, std::uint64_t offset, std::uint64_t key,
                              std::uint64_t flags, fid_mr** region, void* context) {
    fi_mr_attr attributes{};
    attributes.mr_iov = pieces;
    attributes.iov_count = count;
    attributes.access = access;
    attributes.offset = offset;
    attributes.requested_key = key;
    attributes.context = context;
    return open_attributes(domain, &attributes, flags, region);
}

int MemoryRegion::open(struct fid* domain, const void* buffer, std::size_t bytes,
                       std::uint64_t access, std::uint64_t offset, std::uint64_t key,
                       std::uint64_t flags, fid_mr** region, void* context) {
    const iovec piece{const_cast<void*>(buffer), bytes};
    return open_pieces(domain, &piece, 1, access, offset, key, flags, region, context);
}

void MemoryRegion::count(bool is_write) noexcept {
    Counter* const counter = is_write ? writes_ : reads_;
    if (counter != nullptr) counter->add(1);
}

int MemoryRegion::close(struct fid* fid) {
    delete &region_of(fid);
    return 0;
}

int MemoryRegion::bind(struct fid* fid, struct fid* what, std::uint64_t flags) {
    return guarded([&] {
        MemoryRegion& self = region_of(fid);
        if (what->fclass == FI_CLASS_EP) return 0;  // keys hold for all endpoints of the domain
        if (what->fclass != FI_CLASS_CNTR) return -FI_EINVAL;
        if (!(flags & (FI_REMOTE_WRITE | FI_REMOTE_READ))) return -FI_EBADFLAGS;
        auto* counter = &static_cast<Counter&>(*reinterpret_cast<fid_cntr*>(what));
        if ((flags & FI_REMOTE_WRITE) && self.writes_ == nullptr) {
            self.writes_ = counter;
            counter->references().add();
        }
        if ((flags & FI_REMOTE_READ) && self.reads_ == nullptr) {
            self.reads_ = counter;
            counter->references().add();
        }
        self.domain_.add_counting(self);
        return 0;
    });
}

int MemoryRegion::control(struct fid* fid, int command, void* argument) {
    const MemoryRegion& self = region_of(fid);
    switch (command) {
        case FI_ENABLE:
            return 0;
        case FI_GET_RAW_MR: {
            const auto& raw = *static_cast<struct fi_mr_raw_attr*>(argument);
            const std::size_t room = *raw.key_size;
            *raw.key_size = sizeof self.key;
            if (room < sizeof self.key || raw.raw_key == nullptr) return -FI_ETOOSMALL;
            std::memcpy(raw.raw_key, &self.key, sizeof self.key);
            if (raw.base_addr != nullptr) *raw.base_addr = self.base_;
            return 0;
        }
        default:
            return -FI_ENOSYS;
    }
}

fi_ops MemoryRegion::object_operations = {
    .size = sizeof(fi_ops),
    .close = MemoryRegion::close,
    .bind = MemoryRegion::bind,
    .control = MemoryRegion::control,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

}  // namespace via::ofi
