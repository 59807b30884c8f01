// SPDX-License-Identifier: BSD-3-Clause
// A port over AF_XDP: frames go between the interface and memory of this process. On virtual links
// in generic mode (native mode would slow everybody else there), on hardware without a copy if the
// driver can.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "na/net/pairing.hpp"
#include "na/net/port.hpp"
#include "na/net/raw/raw_frame.hpp"

namespace via::na::net {

/// Refused where Viaduct was built without libxdp, where the rights are missing, and where the
/// interface has other XDP programs or several receive queues.
[[nodiscard]] base::Result<std::unique_ptr<Port>> open_xdp_port(const LocalInterface& where,
                                                                std::uint32_t own_id,
                                                                const RawAddress& peer);

}  // namespace via::na::net
