// SPDX-License-Identifier: BSD-3-Clause
// One of two processes with many VIs connected to the other, for measurements that are not about
// speed. All memory the program itself needs is taken at the start.
#pragma once

#include <vipl.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "via/vipl_objects.hpp"

namespace via::bench {

enum class Part { Client, Server };

class ViSide {
  public:
    /// With a completion queue, the receives of all VIs complete there.
    [[nodiscard]] static base::Result<ViSide> open(const std::string& device, Part part,
                                                   const std::string& meeting_point,
                                                   std::size_t capacity, bool completion_queue);

    /// Connects one more VI and leaves a receive posted on it.
    [[nodiscard]] base::Result<void> connect_one(base::Deadline deadline);
    /// A message each way over the newest VI; leaves a receive posted again.
    [[nodiscard]] base::Result<void> greet(base::Deadline deadline);

    [[nodiscard]] VIP_CQ_HANDLE completion_queue() const { return queue_.handle(); }

  private:
    /// What a VI needs of registered memory.
    struct Slot {
        alignas(VIP_DESCRIPTOR_ALIGNMENT) VIP_DESCRIPTOR receive;
        alignas(VIP_DESCRIPTOR_ALIGNMENT) VIP_DESCRIPTOR send;
        std::array<std::byte, 64> received;
        std::array<std::byte, 64> sent;
    };

    ViSide() = default;
    [[nodiscard]] base::Result<void> post_receive(Slot& slot, VIP_VI_HANDLE vi);
    [[nodiscard]] base::Result<void> send(Slot& slot, VIP_VI_HANDLE vi, base::Deadline deadline);
    [[nodiscard]] base::Result<void> receive(VIP_VI_HANDLE vi, base::Deadline deadline);

    // In this order: the VIs go first, the NIC last.
    std::unique_ptr<tool::Nic> nic_;
    tool::Memory memory_;
    tool::CompletionQueue queue_;
    Part part_ = Part::Client;
    std::string meeting_point_;
    Slot* slots_ = nullptr;
    std::size_t capacity_ = 0;
    std::vector<tool::Vi> vis_;
};

/// The process number of the kernel agent that serves this process.
[[nodiscard]] base::Result<pid_t> agent_pid();

}  // namespace via::bench
