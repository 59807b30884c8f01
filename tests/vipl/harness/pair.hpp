// SPDX-License-Identifier: BSD-3-Clause
// Two connected ends in one process.
#pragma once

#include <vipl.h>

#include <cstddef>
#include <memory>

#include "vipl/harness/arena.hpp"
#include "vipl/harness/conditions.hpp"
#include "vipl/harness/levels.hpp"
#include "vipl/harness/vi.hpp"

namespace via::test {

struct PairOptions {
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    std::size_t arena_bytes = 1U << 20;
    VIP_ULONG max_transfer_bytes = 0;
    bool one_nic_handle = false;
    bool rdma_write = true;  ///< rights of both VIs
    bool rdma_read = true;
    bool connected = true;
};

/// Of each of the two.
[[nodiscard]] ViOptions vi_options_of(const PairOptions& options);

struct End {
    End(Nic& nic, const PairOptions& options, ViOptions vi_options);
    Nic& nic;
    VIP_PROTECTION_HANDLE tag;
    Arena arena;
    Vi vi;
    [[nodiscard]] VIP_RETURN post_send(VIP_DESCRIPTOR* descriptor) {
        return VipPostSend(vi, descriptor, arena.handle());
    }
    [[nodiscard]] VIP_RETURN post_recv(VIP_DESCRIPTOR* descriptor) {
        return VipPostRecv(vi, descriptor, arena.handle());
    }
    /// The asynchronous error comes while this VI is looked at with VipQueryVi.
    [[nodiscard]] bool raises(VIP_ERROR_CODE code) {
        return eventually([&] {
            static_cast<void>(vi.state());
            return nic.errors().count(code, vi) != 0;
        });
    }
};

/// Each end with its own tag, arena and VI, and with a NIC handle of its own unless told.
class Pair {
  public:
    explicit Pair(const PairOptions& options = {});
    explicit Pair(VIP_RELIABILITY_LEVEL level) : Pair(PairOptions{.level = level}) {}

  private:
    std::unique_ptr<Nic> client_nic_;
    std::unique_ptr<Nic> server_nic_;

  public:
    End client;
    End server;

    void connect_again();
    /// Both ends get to Error, looked at in turn.
    [[nodiscard]] bool both_break() const {
        return eventually([&] {
            const bool client_broken = client.vi.state() == VIP_STATE_ERROR;
            return server.vi.state() == VIP_STATE_ERROR && client_broken;
        });
    }
    [[nodiscard]] bool both_connected() const {
        return client.vi.state() == VIP_STATE_CONNECTED && server.vi.state() == VIP_STATE_CONNECTED;
    }
};

/// One message each way arrives whole: the connection works.
void expect_traffic(Pair& pair);

/// A VI brought into one of the four states, and whatever keeps it there.
class ViInState {
  public:
    ViInState(Nic& nic, VIP_VI_STATE state, const ViOptions& options = {});
    ~ViInState();
    Vi vi;

  private:
    std::unique_ptr<Vi> partner_;
};

}  // namespace via::test
