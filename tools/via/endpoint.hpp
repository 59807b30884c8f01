// SPDX-License-Identifier: BSD-3-Clause
// One side of one test: its VI, memory, buffers and descriptors, made from the terms.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "link.hpp"
#include "terms.hpp"
#include "vipl_objects.hpp"

namespace via::tool {

enum class Role { Client, Server };

class Endpoint {
  public:
    /// Everything but the connection and the other side's addresses. Receives are posted.
    [[nodiscard]] static base::Result<Endpoint> prepare(const Nic& nic, Role role,
                                                        const SessionTerms& session,
                                                        const TestTerms& test, VIP_CQ_HANDLE queue,
                                                        base::Nanoseconds patience);

    [[nodiscard]] Vi& vi() { return vi_; }
    [[nodiscard]] Link& link() { return link_; }
    [[nodiscard]] const TestTerms& terms() const { return test_; }
    [[nodiscard]] std::byte* send_buffer(std::uint32_t index) const {
        return data_.data() + index * stride_;
    }
    [[nodiscard]] std::byte* receive_buffer(std::uint32_t index) const {
        return data_.data() + (test_.buffers + index) * stride_;
    }
    /// The buffer that belongs to a descriptor of the ring.
    [[nodiscard]] std::uint32_t buffer_of_slot(std::uint32_t slot) const {
        return slot % test_.buffers;
    }

    /// Where the other side may read and write, for it to know.
    [[nodiscard]] nlohmann::json describe_memory() const;
    /// Completes RDMA descriptors with what the other side told.
    [[nodiscard]] base::Result<void> aim_at(const nlohmann::json& remote);

  private:
    TestTerms test_;
    Operation operation_ = Operation::Send;
    Role role_ = Role::Client;
    bool announce_ = false;  ///< RDMA writes carry immediate data, which consumes a receive
    std::uint64_t stride_ = 0;
    // The VI last, so that it goes first.
    Memory descriptors_;
    Memory data_;
    Vi vi_;
    Link link_;
};

/// The VI attributes that both sides use for these terms.
[[nodiscard]] VIP_VI_ATTRIBUTES vi_attributes(const SessionTerms& session, std::uint64_t bytes);

/// An RDMA pingpong that polls waits for memory to change, every other one for a message.
[[nodiscard]] bool polls_memory(const SessionTerms& session);

}  // namespace via::tool
