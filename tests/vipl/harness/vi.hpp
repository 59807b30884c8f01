// SPDX-License-Identifier: BSD-3-Clause
// A VI, what its queues give back, and how two of them are connected.
#pragma once

#include <vipl.h>

#include <cstdint>
#include <vector>

#include "vipl/harness/address.hpp"
#include "vipl/harness/levels.hpp"
#include "vipl/harness/nic.hpp"

namespace via::test {

struct ViOptions {
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    VIP_ULONG max_transfer_bytes = 0;  ///< 0: all the NIC can
    VIP_PROTECTION_HANDLE tag = nullptr;
    bool rdma_write = true;
    bool rdma_read = true;  ///< only where the NIC can at this level
    VIP_CQ_HANDLE send_cq = nullptr;
    VIP_CQ_HANDLE recv_cq = nullptr;
};

[[nodiscard]] VIP_VI_ATTRIBUTES attributes_for(const Nic& nic, const ViOptions& options);

struct Completion {
    VIP_RETURN code = VIP_NOT_DONE;
    VIP_DESCRIPTOR* descriptor = nullptr;
    [[nodiscard]] std::uint32_t status() const { return descriptor ? descriptor->CS.Status : 0; }
    [[nodiscard]] std::uint32_t errors() const { return status() & VIP_STATUS_ERROR_MASK; }
    [[nodiscard]] std::uint32_t operation() const { return status() & VIP_STATUS_OP_MASK; }
    [[nodiscard]] std::uint32_t length() const { return descriptor ? descriptor->CS.Length : 0; }
};

class Vi {
  public:
    explicit Vi(Nic& nic, const ViOptions& options = {});
    Vi(const Vi&) = delete;
    Vi& operator=(const Vi&) = delete;
    /// Disconnects, drains and destroys, all of which must succeed.
    ~Vi();

    operator VIP_VI_HANDLE() const { return handle_; }  // NOLINT: the tests read as C calls
    [[nodiscard]] Nic& nic() const { return nic_; }
    [[nodiscard]] VIP_VI_STATE state() const { return query().state; }
    [[nodiscard]] bool send_queue_empty() const { return query().send_empty != VIP_FALSE; }
    [[nodiscard]] bool recv_queue_empty() const { return query().recv_empty != VIP_FALSE; }
    [[nodiscard]] bool becomes(VIP_VI_STATE state) const;
    [[nodiscard]] VIP_VI_ATTRIBUTES attributes() const { return query().attributes; }

    /// Polls VipSendDone / VipRecvDone until the head is complete.
    [[nodiscard]] Completion await_send() const;
    [[nodiscard]] Completion await_recv() const;
    /// Everything both queues still hold, in order; waits for what is under way.
    std::vector<Completion> drain_send() const;
    std::vector<Completion> drain_recv() const;
    void destroy();
    void forget() { handle_ = nullptr; }

  private:
    struct Query {
        VIP_VI_STATE state = VIP_STATE_IDLE;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_BOOLEAN send_empty = VIP_FALSE;
        VIP_BOOLEAN recv_empty = VIP_FALSE;
    };
    [[nodiscard]] Query query() const;

    Nic& nic_;
    VIP_VI_HANDLE handle_ = nullptr;
};

/// Client/server connection of two VIs of this process, with a thread for the server.
struct ConnectOutcome {
    VIP_RETURN request = VIP_NOT_DONE;
    VIP_RETURN wait = VIP_NOT_DONE;
    VIP_RETURN accept = VIP_NOT_DONE;
    VIP_VI_ATTRIBUTES seen_by_client{};
    VIP_VI_ATTRIBUTES seen_by_server{};
    Address requester;  ///< as VipConnectWait told it
};
ConnectOutcome connect(Vi& client, Vi& server);
/// VipConnectRequest, again while nobody waits yet.
VIP_RETURN request_until_matched(VIP_VI_HANDLE vi, Address& local, Address& remote,
                                 VIP_ULONG timeout = patience_ms,
                                 VIP_VI_ATTRIBUTES* remote_attributes = nullptr);

}  // namespace via::test
