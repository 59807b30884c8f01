// SPDX-License-Identifier: BSD-3-Clause
// The provider "via" of libfabric: what libfabric finds in libvia-fi.so.
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <cerrno>
#include <cstddef>

namespace via::ofi {

extern fi_provider provider;

/// FI_VIA_TX_SIZE and FI_VIA_RX_SIZE: the depths that attributes tell when the program asks for
/// none.
struct QueueDepths {
    std::size_t transmit;
    std::size_t receive;
};
[[nodiscard]] const QueueDepths& queue_depths() noexcept;

}  // namespace via::ofi

/// For the first place that knows why something can not be done.
#define VIA_OFI_WARN(subsystem, ...) FI_WARN(&via::ofi::provider, subsystem, __VA_ARGS__)
