// SPDX-License-Identifier: BSD-3-Clause
#include "ua/nic.hpp"

#include <sched.h>

#include <new>

#include "base/counters.hpp"
#include "base/huge_pages.hpp"
#include "base/log.hpp"
#include "base/memory_file.hpp"
#include "base/settings.hpp"
#include "base/undo.hpp"
#include "ua/completion_queue.hpp"
#include "ua/tables.hpp"

namespace via::ua {
namespace {

/// An entry of a map or set, made before anything is to be undone; putting it in needs no memory.
template <class Container, class... Parts>
typename Container::node_type prepared(Parts&&... parts) {
    Container single;
    single.emplace(std::forward<Parts>(parts)...);
    return single.extract(single.begin());
}

constexpr std::uint64_t nic_kind = 0x4E;
constexpr std::uint64_t request_kind = 0x52;

/// NICs and unanswered connection requests of the process. Control path only, so a lock and a map.
struct Directory {
    struct Kept {
        std::shared_ptr<Nic> nic;
        ka::IncomingRequest request;
    };
    std::mutex mutex;
    std::uint64_t next = 1;
    std::map<const void*, std::shared_ptr<Nic>> nics;
    std::map<const void*, Kept> requests;

    void* new_handle(std::uint64_t kind) { return reinterpret_cast<void*>(next++ << 28 | kind); }
};
Directory* directory = new Directory;  // never destroyed, as the handle tables

const char* error_name(VIP_ERROR_CODE code) {
    switch (code) {
        case VIP_ERROR_POST_DESC:
            return "VIP_ERROR_POST_DESC: a descriptor that can not be used was posted";
        case VIP_ERROR_CONN_LOST:
            return "VIP_ERROR_CONN_LOST: the connection was lost";
        case VIP_ERROR_RECVQ_EMPTY:
            return "VIP_ERROR_RECVQ_EMPTY: a message found no receive descriptor";
        case VIP_ERROR_VI_OVERRUN:
            return "VIP_ERROR_VI_OVERRUN: more descriptors were posted than a queue may hold";
        case VIP_ERROR_RDMAW_PROT:
            return "VIP_ERROR_RDMAW_PROT: an incoming RDMA write was refused";
        case VIP_ERROR_RDMAW_DATA:
            return "VIP_ERROR_RDMAW_DATA: an incoming RDMA write was damaged";
        case VIP_ERROR_RDMAW_ABORT:
            return "VIP_ERROR_RDMAW_ABORT: an incoming RDMA write was cut off";
        case VIP_ERROR_RDMAR_PROT:
            return "VIP_ERROR_RDMAR_PROT: an incoming RDMA read was refused";
        case VIP_ERROR_COMP_PROT:
            return "VIP_ERROR_COMP_PROT: a completed descriptor is no longer in registered memory";
        case VIP_ERROR_RDMA_TRANSPORT:
            return "VIP_ERROR_RDMA_TRANSPORT: an RDMA operation failed in transport";
        case VIP_ERROR_CATASTROPHIC:
            return "VIP_ERROR_CATASTROPHIC: the NIC can not be used any more";
    }
    return "unknown error";
}

}  // namespace

void forget_all_nics() {
    directory = new Directory;
}

Nic::Nic(Process& process, na::NicAgent* device)
    : process_(process),
      device_(device),
      max_descriptors_(
          static_cast<std::uint32_t>(base::Settings::get().number("VIA_MAX_DESCRIPTORS"))),
      strict_tags_(base::Settings::get().flag("VIA_STRICT_PTAG")),
      reads_table_(base::Settings::get().flag("VIA_UTLB")) {
    errors_.reserve(16);  // room for the first ones whatever memory there is later
}

base::Result<std::shared_ptr<Nic>> Nic::open(std::string_view device_name) {
    const std::string name = resolve_device_name(device_name);
    if (name.empty())
        return base::Result<std::shared_ptr<Nic>>(
            base::Code::InvalidArgument,
            "there is no device '" + std::string(device_name) + "'; `via info` lists them");
    auto process = Process::get();
    if (!process) return std::move(process).error();
    auto device = process.value()->device(name);
    if (!device) return std::move(device).error();
    if (auto allowed = device.value()->may_open(); !allowed) return std::move(allowed).error();
    std::shared_ptr<Nic> nic(new Nic(*process.value(), device.value()));
    const std::lock_guard guard(directory->mutex);
    nic->handle_ = directory->new_handle(nic_kind);
    directory->nics.emplace(nic->handle_, nic);
    return nic;
}

std::shared_ptr<Nic> Nic::find(const void* handle) {
    const std::lock_guard guard(directory->mutex);
    const auto found = directory->nics.find(handle);
    return found == directory->nics.end() ? nullptr : found->second;
}

void Nic::close() {
    {
        // No callback comes after the close.
        const std::lock_guard guard(handler_mutex_);
        closed_ = true;
    }
    {
        const std::lock_guard guard(directory->mutex);
        directory->nics.erase(handle_);
    }
    // A waiter may be about to wait: cancelled until none is left.
    closing_.store(true);
    while (connection_waiters_.load() != 0) {
        device_->cancel_waits(this);
        sched_yield();
    }
    Handles vis;
    Handles cqs;
    Regions regions;
    {
        const std::lock_guard guard(mutex_);
        vis.swap(vis_);
        cqs.swap(cqs_);
        regions.swap(regions_);
        tags_.clear();
    }
    for (const std::uint64_t handle : vis) {
        VirtualInterface* vi = vi_table().find(reinterpret_cast<void*>(handle));
        if (vi == nullptr) continue;
        if (vi->force_close(handle)) vi_table().give_back(handle);
    }
    for (const std::uint64_t handle : cqs) {
        CompletionQueue* cq = cq_table().find(reinterpret_cast<void*>(handle));
        if (cq == nullptr) continue;
        if (cq->force_close(handle)) cq_table().give_back(handle);
    }
    process_.doorbell().wake_local();  // threads that sleep in a Wait call see that it is over
    for (const auto& [handle, region] : regions) {
        if (auto done = process_.agent().deregister_memory(handle); !done)
            base::log(base::LogLevel::Debug, "while closing a NIC: " + done.error().sentence);
        if (region.kmem_block)
            if (auto done = process_.agent().free_kmem(region.address); !done)
                base::log(base::LogLevel::Debug, "while closing a NIC: " + done.error().sentence);
    }
    std::vector<std::uint64_t> unanswered;
    {
        const std::lock_guard guard(directory->mutex);
        for (auto i = directory->requests.begin(); i != directory->requests.end();) {
            if (i->second.nic.get() != this) {
                ++i;
                continue;
            }
            unanswered.push_back(i->second.request.request);
            i = directory->requests.erase(i);
        }
    }
    for (const std::uint64_t request : unanswered)
        [[maybe_unused]] const auto rejected = device_->connect_reject(request);
    // No handler runs any more.
    process_.service().finish_running();
    deliver_errors();  // to the log
}

base::Result<ka::ProtectionTag> Nic::create_tag() {
    static std::atomic<ka::ProtectionTag> next{1};
    const std::lock_guard guard(mutex_);
    if (tags_.size() >= 65536)
        return base::Result<ka::ProtectionTag>(base::Code::OutOfResources,
                                               "this NIC has 65536 protection tags already");
    const ka::ProtectionTag tag = next.fetch_add(1);
    tags_.emplace(tag, 0);
    return tag;
}

base::Result<void> Nic::destroy_tag(ka::ProtectionTag tag) {
    const std::lock_guard guard(mutex_);
    const auto found = tags_.find(tag);
    if (found == tags_.end())
        return base::Result<void>(base::Code::ProtectionTag, "there is no such protection tag");
    if (found->second != 0)
        return base::Result<void>(base::Code::OutOfResources, "the protection tag is in use by " +
                                                                  std::to_string(found->second) +
                                                                  " VIs or memory regions");
    tags_.erase(found);
    return {};
}

bool Nic::tag_exists(ka::ProtectionTag tag) {
    const std::lock_guard guard(mutex_);
    return tag == ka::null_tag || tags_.contains(tag);
}

bool Nic::use_tag(ka::ProtectionTag tag) {
    const std::lock_guard guard(mutex_);
    if (tag == ka::null_tag) return true;
    const auto found = tags_.find(tag);
    if (found == tags_.end()) return false;
    ++found->second;
    return true;
}

void Nic::release_tag(ka::ProtectionTag tag) {
    const std::lock_guard guard(mutex_);
    const auto found = tags_.find(tag);
    if (found != tags_.end() && found->second != 0) --found->second;
}

base::Result<ka::MemoryHandle> Nic::register_memory(void* address, std::uint64_t bytes,
                                                    const MemoryAttributes& attributes,
                                                    Pages pages) {
    if (!base::is_mapped(address, bytes))
        return base::Result<ka::MemoryHandle>(
            base::Code::InvalidArgument,
            "some of the memory to be registered is not mapped in this process");
    if (!use_tag(attributes.tag))
        return base::Result<ka::MemoryHandle>(base::Code::ProtectionTag,
                                              "there is no such protection tag on this NIC");
    base::Undo unused_tag([&] { release_tag(attributes.tag); });
    if (pages == Pages::Huge) base::use_huge_pages(address, bytes);
    auto entry =
        prepared<Regions>(ka::MemoryHandle{0}, RegionRecord{address, bytes, attributes, false});
    auto handle =
        process_.agent().register_memory(address, bytes, attributes.tag, attributes.rights);
    process_.publish_rmmt_epoch();
    if (!handle) return handle;
    unused_tag.keep();
    entry.key() = handle.value();
    const std::lock_guard guard(mutex_);
    regions_.insert(std::move(entry));
    return handle;
}

Nic::RegionRecord* Nic::find_region(void* address, ka::MemoryHandle handle) {
    const auto found = regions_.find(handle);
    if (found == regions_.end() || found->second.address != address) return nullptr;
    return &found->second;
}

base::Result<void> Nic::deregister_memory(void* address, ka::MemoryHandle handle) {
    MemoryAttributes attributes;
    {
        const std::lock_guard guard(mutex_);
        const RegionRecord* region = find_region(address, handle);
        if (region == nullptr || region->kmem_block)
            return base::Result<void>(
                base::Code::InvalidArgument,
                region == nullptr
                    ? "no region with this address and handle is registered on this NIC"
                    : "memory from VipxAllocMem is given back with VipxFreeMem");
        attributes = region->attributes;
        regions_.erase(handle);
    }
    release_tag(attributes.tag);
    auto done = process_.agent().deregister_memory(handle);
    process_.publish_rmmt_epoch();
    return done;
}

base::Result<void> Nic::change_memory(void* address, ka::MemoryHandle handle,
                                      const MemoryAttributes& attributes) {
    if (!use_tag(attributes.tag))
        return base::Result<void>(base::Code::ProtectionTag,
                                  "there is no such protection tag on this NIC");
    const std::unique_lock guard(mutex_);
    RegionRecord* region = find_region(address, handle);
    base::Result<void> done;
    if (region == nullptr)
        done = base::Error{base::Code::InvalidArgument,
                           "no region with this address and handle is registered on this NIC"};
    else
        done = process_.agent().change_memory(handle, attributes.tag, attributes.rights);
    const auto uses = tags_.find(done ? region->attributes.tag : attributes.tag);
    if (uses != tags_.end() && uses->second != 0) --uses->second;
    if (done) region->attributes = attributes;
    return done;
}

base::Result<MemoryAttributes> Nic::query_memory(void* address, ka::MemoryHandle handle) {
    const std::lock_guard guard(mutex_);
    const RegionRecord* region = find_region(address, handle);
    if (region == nullptr)
        return base::Result<MemoryAttributes>(
            base::Code::InvalidArgument,
            "no region with this address and handle is registered on this NIC");
    return region->attributes;
}

base::Result<Nic::Allocation> Nic::allocate(std::uint64_t bytes,
                                            const MemoryAttributes& attributes) {
    if (!tag_exists(attributes.tag))
        return base::Result<Allocation>(base::Code::ProtectionTag,
                                        "there is no such protection tag on this NIC");
    auto block = process_.agent().allocate_kmem(bytes, attributes.tag);
    process_.publish_rmmt_epoch();
    if (!block) return std::move(block).error();
    base::Undo unregistered([&] { process_.agent().abandon_kmem(block.value().address); });
    auto handle = register_memory(block.value().address, bytes, attributes);
    if (!handle) return std::move(handle).error();
    unregistered.keep();
    const std::lock_guard guard(mutex_);
    regions_[handle.value()].kmem_block = true;
    return Allocation{block.value().address, handle.value()};
}

base::Result<void> Nic::free(void* address, ka::MemoryHandle handle) {
    {
        const std::lock_guard guard(mutex_);
        RegionRecord* region = find_region(address, handle);
        if (region == nullptr || !region->kmem_block)
            return base::Result<void>(base::Code::InvalidArgument,
                                      "this address and handle did not come from VipxAllocMem on "
                                      "this NIC");
        region->kmem_block = false;
    }
    if (auto done = deregister_memory(address, handle); !done) return done;
    return process_.agent().free_kmem(address);
}

base::Result<std::uint64_t> Nic::create_vi(const ka::EndpointAttributes& attributes,
                                           CompletionQueue* send_cq, CompletionQueue* receive_cq,
                                           na::FrameSink* sink) {
    for (const CompletionQueue* cq : {send_cq, receive_cq})
        if (cq != nullptr && &cq->nic()->device() != device_)
            return base::Result<std::uint64_t>(base::Code::InvalidArgument,
                                               "the completion queue belongs to another device");
    if (!use_tag(attributes.tag))
        return base::Result<std::uint64_t>(base::Code::ProtectionTag,
                                           "there is no such protection tag on this NIC");
    base::Undo unused_tag([&] { release_tag(attributes.tag); });
    auto entry = prepared<Handles>(std::uint64_t{0});
    std::uint64_t handle = 0;
    VirtualInterface* vi = vi_table().take(handle);
    if (vi == nullptr)
        return base::Result<std::uint64_t>(base::Code::OutOfResources,
                                           "this process has 32768 VIs already");
    base::Undo unused_handle([&] { vi_table().give_back(handle); });
    auto opened = vi->open(shared_from_this(), handle, attributes, send_cq, receive_cq, sink);
    if (!opened) return std::move(opened).error();
    unused_handle.keep();
    unused_tag.keep();
    entry.value() = handle;
    const std::lock_guard guard(mutex_);
    vis_.insert(std::move(entry));
    return handle;
}

base::Result<void> Nic::destroy_vi(VirtualInterface& vi, std::uint64_t handle) {
    ViSnapshot before;
    if (!vi.snapshot(handle, before))
        return base::Result<void>(base::Code::InvalidArgument, "the VI has been destroyed");
    if (auto closed = vi.close(handle); !closed) return closed;
    release_tag(before.attributes.tag);
    {
        const std::lock_guard guard(mutex_);
        vis_.erase(handle);
    }
    vi_table().give_back(handle);
    process_.service().finish_running();  // a handler of this VI, perhaps
    return {};
}

base::Result<std::uint64_t> Nic::create_cq(std::uint32_t entries) {
    auto entry = prepared<Handles>(std::uint64_t{0});
    std::uint64_t handle = 0;
    CompletionQueue* cq = cq_table().take(handle);
    if (cq == nullptr)
        return base::Result<std::uint64_t>(base::Code::OutOfResources,
                                           "this process has 32768 completion queues already");
    base::Undo unused_handle([&] { cq_table().give_back(handle); });
    cq->open(shared_from_this(), entries);
    unused_handle.keep();
    cq->handle.store(handle, std::memory_order_release);
    entry.value() = handle;
    const std::lock_guard guard(mutex_);
    cqs_.insert(std::move(entry));
    return handle;
}

base::Result<void> Nic::destroy_cq(CompletionQueue& cq, std::uint64_t handle) {
    if (auto closed = cq.close(handle); !closed) return closed;
    {
        const std::lock_guard guard(mutex_);
        cqs_.erase(handle);
    }
    cq_table().give_back(handle);
    process_.service().finish_running();
    return {};
}

void Nic::set_error_handler(ErrorHandler handler, VIP_PVOID context) {
    {
        const std::lock_guard guard(handler_mutex_);
        handler_ = handler;
        handler_context_ = context;
    }
    process_.service().finish_running();  // the handler before it, perhaps
}

void Nic::raise(const VIP_ERROR_DESCRIPTOR& error) noexcept {
    // A peer can cause errors faster than a handler takes them; the first ones tell the story.
    constexpr std::size_t most_waiting = 1024;
    {
        const std::lock_guard guard(handler_mutex_);
        if (errors_.size() >= most_waiting) return;
        try {
            errors_.push_back(error);
        } catch (const std::bad_alloc&) {
            return;  // those that found room do
        }
        errors_.back().NicHandle = handle_;
    }
    // On the service thread: the caller may hold a VI's lock, and handlers may call anything.
    process_.call_handlers_soon();
}

void Nic::raise_lost_completion(std::uint64_t vi) noexcept {
    VIP_ERROR_DESCRIPTOR error{};
    error.ViHandle = reinterpret_cast<VIP_VI_HANDLE>(vi);
    error.ResourceCode = VIP_RESOURCE_CQ;
    error.ErrorCode = VIP_ERROR_VI_OVERRUN;
    raise(error);
}

std::shared_ptr<Nic> Nic::next_with_errors() {
    const std::lock_guard guard(directory->mutex);
    for (const auto& [handle, nic] : directory->nics) {
        const std::lock_guard errors(nic->handler_mutex_);
        if (!nic->errors_.empty()) return nic;
    }
    return nullptr;
}

void Nic::deliver_errors() {
    for (;;) {
        VIP_ERROR_DESCRIPTOR error;
        ErrorHandler handler;
        VIP_PVOID context;
        {
            const std::lock_guard guard(handler_mutex_);
            if (errors_.empty()) return;
            error = errors_[errors_begin_++];
            if (errors_begin_ == errors_.size()) {
                errors_.clear();
                errors_begin_ = 0;
            }
            handler = handler_;
            context = handler_context_;
            // The program's handler is not called after VipCloseNic; the log still tells.
            if (closed_ && handler != nullptr) continue;
        }
        try {
            const std::string sentence = error_name(error.ErrorCode);
            base::Counters::get().record_error("asynchronous error: " + sentence);
            if (handler == nullptr)
                base::log(base::LogLevel::Warning, "asynchronous error on " + device_name() + ": " +
                                                       sentence +
                                                       " (VipErrorCallback sets a handler)");
        } catch (const std::bad_alloc&) {
            // No memory for sentences; the handler is told all the same.
        }
        if (handler != nullptr) handler(context, &error);
    }
}

base::Result<void*> Nic::connect_wait(const ka::NetAddress& local, base::Deadline deadline,
                                      ka::IncomingRequest& request) {
    connection_waiters_.fetch_add(1);
    base::Undo waiting([&] { connection_waiters_.fetch_sub(1); });
    if (closing_.load())
        return base::Result<void*>(base::Code::InvalidArgument, "the NIC was closed");
    // Its place first: a request that has come can be kept.
    auto entry = prepared<std::map<const void*, Directory::Kept>>(nullptr, Directory::Kept{});
    entry.mapped().nic = shared_from_this();
    auto incoming = device_->connect_wait(local, deadline, this);
    if (!incoming) return std::move(incoming).error();
    request = incoming.value();
    entry.mapped().request = request;
    const std::lock_guard guard(directory->mutex);
    void* handle = directory->new_handle(request_kind);
    entry.key() = handle;
    directory->requests.insert(std::move(entry));
    return handle;
}

std::shared_ptr<Nic> Nic::find_request(const void* handle, ka::IncomingRequest& request) {
    const std::lock_guard guard(directory->mutex);
    const auto found = directory->requests.find(handle);
    if (found == directory->requests.end()) return nullptr;
    request = found->second.request;
    return found->second.nic;
}

void Nic::drop_request(const void* handle) {
    const std::lock_guard guard(directory->mutex);
    directory->requests.erase(handle);
}

}  // namespace via::ua
