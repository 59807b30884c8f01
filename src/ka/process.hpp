// SPDX-License-Identifier: BSD-3-Clause
// What one attached process has at the kernel agent: its table, its kmem, its VIs. Everything goes
// when this does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "ka/connections.hpp"
#include "ka/kmem.hpp"
#include "ka/limits.hpp"
#include "ka/protocol.hpp"
#include "ka/rmmt_table.hpp"
#include "ka/shared_fd.hpp"

namespace via::ka {

struct Vi {
    Ticket pending = 0;            ///< a connection request under way
    std::uint64_t connection = 0;  ///< established
};

class Process {
  public:
    [[nodiscard]] static base::Result<std::unique_ptr<Process>> create(
        ProcessNumber number, const AttachRequest& attach, const KmemSettings& kmem,
        const Limits& limits, RmmtTable::Random random, base::Nanoseconds now);

    // Set by the agent from what came with the attachment.
    SharedFd pidfd;
    SharedFd doorbell_memory;
    SharedFd doorbell_event;
    SharedFd counters;
    bool restoring = false;

    [[nodiscard]] ProcessNumber number() const noexcept { return number_; }
    [[nodiscard]] std::uint64_t instance() const noexcept { return instance_; }
    [[nodiscard]] std::uint32_t rmmt_epoch() const noexcept { return rmmt_epoch_; }
    [[nodiscard]] const std::string& program() const noexcept { return program_; }
    [[nodiscard]] base::Nanoseconds since() const noexcept { return since_; }
    [[nodiscard]] const SharedFd& rmmt() const noexcept { return table_.file(); }

    [[nodiscard]] base::Result<MemoryHandle> register_memory(const RegisterRequest& region);
    [[nodiscard]] base::Result<void> restore_region(const RegionRecord& record);
    [[nodiscard]] base::Result<void> deregister_memory(MemoryHandle handle);
    [[nodiscard]] base::Result<Region> region(MemoryHandle handle) const;
    [[nodiscard]] base::Result<void> change_memory(const ChangeMemoryRequest& change);

    [[nodiscard]] Kmem& kmem() noexcept { return kmem_; }

    [[nodiscard]] base::Result<std::uint32_t> create_vi();
    [[nodiscard]] base::Result<void> restore_vi(std::uint32_t vi);
    [[nodiscard]] Vi* find_vi(std::uint32_t vi);
    void destroy_vi(std::uint32_t vi) { vis_.erase(vi); }

    [[nodiscard]] std::size_t vis() const noexcept { return vis_.size(); }
    [[nodiscard]] std::size_t regions() const noexcept { return regions_.size(); }
    [[nodiscard]] std::uint64_t registered_bytes() const noexcept { return registered_bytes_; }
    [[nodiscard]] const Kmem& kmem() const noexcept { return kmem_; }

  private:
    struct Registered {
        RegisterRequest request;
        bool in_block = false;  // all of it lies in one kmem block
    };
    Process(RmmtTable table, const KmemSettings& kmem, const Limits& limits)
        : limits_(limits), table_(std::move(table)), kmem_(kmem, limits) {}
    [[nodiscard]] Region published(const Registered& registered) const;

    Limits limits_;
    ProcessNumber number_ = 0;
    std::uint64_t instance_ = 0;
    std::uint32_t rmmt_epoch_ = 0;
    std::string program_;
    base::Nanoseconds since_ = 0;
    RmmtTable table_;
    Kmem kmem_;
    std::unordered_map<MemoryHandle, Registered> regions_;
    std::uint64_t registered_bytes_ = 0;
    std::unordered_map<std::uint32_t, Vi> vis_;
    std::uint32_t last_vi_ = 0;
};

}  // namespace via::ka
