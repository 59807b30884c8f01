// SPDX-License-Identifier: BSD-3-Clause
// A domain: one device of the message layer, and what programs open on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "mvich/device.hpp"
#include "ofi/info.hpp"
#include "ofi/references.hpp"

namespace via::ofi {

class EventQueue;
class Fabric;
class MemoryRegion;
class TriggerQueue;

class Domain final : public fid_domain {
  public:
    static int open(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context);

    [[nodiscard]] Fabric& fabric() noexcept { return fabric_; }
    [[nodiscard]] mvich::Device& device() noexcept { return *device_; }
    [[nodiscard]] const std::shared_ptr<mvich::Device>& shared_device() const noexcept {
        return device_;
    }
    [[nodiscard]] References& references() noexcept { return references_; }
    [[nodiscard]] std::uint32_t address_format() const noexcept { return address_format_; }
    [[nodiscard]] RegionMode mode() const noexcept { return mode_; }
    /// Where address vectors and memory regions tell that they are done, if they have no queue of
    /// their own. May be null.
    [[nodiscard]] EventQueue* event_queue() const noexcept { return event_queue_; }

    bool progress() { return device_->progress(); }

    /// Orders that wait for counters. Made when first asked for; can throw std::bad_alloc.
    [[nodiscard]] TriggerQueue& triggers();
    /// Null: nothing has ever waited.
    [[nodiscard]] TriggerQueue* existing_triggers() const noexcept {
        return existing_triggers_.load(std::memory_order_acquire);
    }

    /// Regions that count what peers do with them.
    void add_counting(MemoryRegion& region);
    void remove_counting(MemoryRegion& region) noexcept;
    void count_remote(std::uint64_t key, bool is_write) noexcept;

  private:
    Domain(Fabric& fabric, const fi_info& info, std::shared_ptr<mvich::Device> device,
           void* context);
    ~Domain();

    static int close(struct fid* fid);
    static int bind(struct fid* fid, struct fid* what, std::uint64_t flags);
    static int control(struct fid* fid, int command, void* argument);
    static int query_atomic(fid_domain* domain, fi_datatype datatype, fi_op operation,
                            fi_atomic_attr* attributes, std::uint64_t flags);

    static fi_ops object_operations;
    static fi_ops_domain operations;
    static fi_ops_mr region_operations;

    Fabric& fabric_;
    Reference fabric_reference_;
    References references_;
    std::shared_ptr<mvich::Device> device_;
    std::uint32_t address_format_;
    RegionMode mode_;
    EventQueue* event_queue_ = nullptr;
    std::mutex counting_mutex_;
    std::unordered_map<std::uint64_t, MemoryRegion*> counting_;
    std::atomic<bool> anything_counts_{false};
    std::mutex triggers_mutex_;
    std::unique_ptr<TriggerQueue> triggers_;
    std::atomic<TriggerQueue*> existing_triggers_{nullptr};
};

}  // namespace via::ofi
