// SPDX-License-Identifier: BSD-3-Clause
// An open NIC: protection tags, registered memory, VIs and completion queues of one VipOpenNic,
// and the handler of its asynchronous errors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "ka/client.hpp"
#include "na/nic_agent.hpp"
#include "ua/process.hpp"
#include "ua/virtual_interface.hpp"
#include "vipl.h"

namespace via::ua {

struct MemoryAttributes {
    ka::ProtectionTag tag = ka::null_tag;
    std::uint32_t rights = 0;
};

/// Of memory that is registered. To move it to huge pages takes its time, and pays if it is used
/// again and again.
enum class Pages { AsTheyAre, Huge };

class Nic : public std::enable_shared_from_this<Nic> {
  public:
    [[nodiscard]] static base::Result<std::shared_ptr<Nic>> open(std::string_view device_name);
    [[nodiscard]] static std::shared_ptr<Nic> find(const void* handle);
    void close();

    [[nodiscard]] void* handle() const noexcept { return handle_; }
    [[nodiscard]] na::NicAgent& device() noexcept { return *device_; }
    [[nodiscard]] Process& process() noexcept { return process_; }
    [[nodiscard]] ka::RmmtView rmmt() noexcept { return process_.agent().rmmt(); }
    [[nodiscard]] std::uint32_t max_descriptors() const noexcept { return max_descriptors_; }
    [[nodiscard]] bool strict_tags() const noexcept { return strict_tags_; }
    /// Posts are translated by the RMMT (UTLB), not by the kernel agent.
    [[nodiscard]] bool reads_table() const noexcept { return reads_table_; }
    [[nodiscard]] std::string device_name() const { return device_->attributes().name; }

    // Protection tags.
    [[nodiscard]] base::Result<ka::ProtectionTag> create_tag();
    [[nodiscard]] base::Result<void> destroy_tag(ka::ProtectionTag tag);
    [[nodiscard]] bool tag_exists(ka::ProtectionTag tag);
    /// False: no such tag.
    [[nodiscard]] bool use_tag(ka::ProtectionTag tag);
    void release_tag(ka::ProtectionTag tag);

    // Memory.
    [[nodiscard]] base::Result<ka::MemoryHandle> register_memory(void* address, std::uint64_t bytes,
                                                                 const MemoryAttributes& attributes,
                                                                 Pages pages = Pages::AsTheyAre);
    [[nodiscard]] base::Result<void> deregister_memory(void* address, ka::MemoryHandle handle);
    [[nodiscard]] base::Result<void> change_memory(void* address, ka::MemoryHandle handle,
                                                   const MemoryAttributes& attributes);
    [[nodiscard]] base::Result<MemoryAttributes> query_memory(void* address,
                                                              ka::MemoryHandle handle);
    struct Allocation {
        void* address;
        ka::MemoryHandle handle;
    };
    [[nodiscard]] base::Result<Allocation> allocate(std::uint64_t bytes,
                                                    const MemoryAttributes& attributes);
    [[nodiscard]] base::Result<void> free(void* address, ka::MemoryHandle handle);

    // VIs and completion queues; handles as the program sees them.
    [[nodiscard]] base::Result<std::uint64_t> create_vi(const ka::EndpointAttributes& attributes,
                                                        CompletionQueue* send_cq,
                                                        CompletionQueue* receive_cq,
                                                        na::FrameSink* sink = nullptr);
    [[nodiscard]] base::Result<void> destroy_vi(VirtualInterface& vi, std::uint64_t handle);
    [[nodiscard]] base::Result<std::uint64_t> create_cq(std::uint32_t entries);
    [[nodiscard]] base::Result<void> destroy_cq(CompletionQueue& cq, std::uint64_t handle);

    // Asynchronous errors.
    using ErrorHandler = void (*)(VIP_PVOID, VIP_ERROR_DESCRIPTOR*);
    void set_error_handler(ErrorHandler handler, VIP_PVOID context);
    /// Any thread, with any lock: the handler is called on the service thread, by deliver_errors().
    void raise(const VIP_ERROR_DESCRIPTOR& error) noexcept;
    /// A completion queue is full, and there is no memory for a larger one.
    void raise_lost_completion(std::uint64_t vi) noexcept;
    void deliver_errors();
    [[nodiscard]] static std::shared_ptr<Nic> next_with_errors();

    /// Keeps the request that comes until it is answered, and returns its handle. Ends with
    /// InvalidArgument when the NIC is closed meanwhile.
    [[nodiscard]] base::Result<void*> connect_wait(const ka::NetAddress& local,
                                                   base::Deadline deadline,
                                                   ka::IncomingRequest& request);
    [[nodiscard]] static std::shared_ptr<Nic> find_request(const void* handle,
                                                           ka::IncomingRequest& request);
    void drop_request(const void* handle);

  private:
    struct RegionRecord {
        void* address;
        std::uint64_t bytes;
        MemoryAttributes attributes;
        bool kmem_block = false;  ///< made by allocate(): freed with it
    };
    using Regions = std::map<ka::MemoryHandle, RegionRecord>;
    using Handles = std::set<std::uint64_t>;
    Nic(Process& process, na::NicAgent* device);
    [[nodiscard]] RegionRecord* find_region(void* address, ka::MemoryHandle handle);

    Process& process_;
    na::NicAgent* device_;
    void* handle_ = nullptr;
    std::uint32_t max_descriptors_;
    bool strict_tags_;
    bool reads_table_;

    std::mutex mutex_;
    std::map<ka::ProtectionTag, std::uint32_t> tags_;  ///< uses of each
    Regions regions_;
    Handles vis_;
    Handles cqs_;

    std::mutex handler_mutex_;
    ErrorHandler handler_ = nullptr;
    VIP_PVOID handler_context_ = nullptr;
    bool closed_ = false;
    std::vector<VIP_ERROR_DESCRIPTOR> errors_;  ///< raised; those before errors_begin_ are told
    std::size_t errors_begin_ = 0;
    std::atomic<std::uint32_t> connection_waiters_{0};
    std::atomic<bool> closing_{false};
};

void forget_all_nics();

}  // namespace via::ua
