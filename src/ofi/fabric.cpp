// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/fabric.hpp"

#include <algorithm>
#include <cstring>

#include "ofi/connection_manager.hpp"
#include "ofi/domain.hpp"
#include "ofi/errors.hpp"
#include "ofi/event_queue.hpp"
#include "ofi/passive_endpoint.hpp"
#include "ofi/poll_set.hpp"
#include "ofi/provider.hpp"
#include "ofi/stubs.hpp"
#include "ofi/wait_set.hpp"

namespace via::ofi {

int open_fabric(fi_fabric_attr* attributes, fid_fabric** fabric, void* context) {
    return guarded([&] {
        if (attributes->name != nullptr && std::strcmp(attributes->name, "via") != 0)
            return -FI_ENODATA;
        *fabric = new Fabric(attributes->api_version, context);
        return 0;
    });
}

Fabric::Fabric(std::uint32_t version, void* context) : fid_fabric{} {
    fid.fclass = FI_CLASS_FABRIC;
    fid.context = context;
    fid.ops = &object_operations;
    ops = &operations;
    api_version = version;
}

Fabric::~Fabric() = default;

base::Result<std::shared_ptr<mvich::Device>> Fabric::listening_device() {
    const std::lock_guard guard(mutex_);
    if (auto device = listening_device_.lock()) return device;
    auto opened = mvich::Device::open();
    if (opened) listening_device_ = opened.value();
    return opened;
}

void Fabric::add(std::unique_ptr<ConnectionRequest> request) {
    const std::lock_guard guard(mutex_);
    requests_.insert(std::move(request));
}

std::unique_ptr<ConnectionRequest> Fabric::take_request(struct fid* handle) noexcept {
    const std::lock_guard guard(mutex_);
    const auto at = std::find_if(requests_.begin(), requests_.end(), [&](const auto& request) {
        return static_cast<struct fid*>(request.get()) == handle;
    });
    if (at == requests_.end()) return nullptr;
    return std::move(requests_.extract(at).value());
}

int Fabric::close(struct fid* fid) {
    auto* self = &static_cast<Fabric&>(*reinterpret_cast<fid_fabric*>(fid));
    if (self->references_.any()) return -FI_EBUSY;
    delete self;
    return 0;
}

int Fabric::try_wait(fid_fabric*, struct fid** fids, int count) {
    return guarded([&] {
        for (int at = 0; at < count; ++at) {
            int result = -FI_EINVAL;
            if (fids[at]->fclass == FI_CLASS_WAIT)
                result = static_cast<WaitSet&>(*reinterpret_cast<fid_wait*>(fids[at])).try_wait();
            else if (Waitable* const waitable = waitable_of(fids[at]))
                result = waitable->try_wait();
            if (result != 0) return result;
        }
        return 0;
    });
}

int Fabric::open_domain_with_flags(fid_fabric* fabric, fi_info* info, fid_domain** domain,
                                   std::uint64_t flags, void* context) {
    return flags != 0 ? -FI_ENOSYS : Domain::open(fabric, info, domain, context);
}

fi_ops Fabric::object_operations = {
    .size = sizeof(fi_ops),
    .close = Fabric::close,
    .bind = not_supported,
    .control = not_supported,
    .ops_open = not_supported,
    .tostr = not_supported,
    .ops_set = not_supported,
};

fi_ops_fabric Fabric::operations = {
    .size = sizeof(fi_ops_fabric),
    .domain = Domain::open,
    .passive_ep = PassiveEndpoint::open,
    .eq_open = EventQueue::open,
    .wait_open = WaitSet::open,
    .trywait = Fabric::try_wait,
    .domain2 = Fabric::open_domain_with_flags,
};

}  // namespace via::ofi
