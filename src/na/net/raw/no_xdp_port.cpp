// SPDX-License-Identifier: BSD-3-Clause
// Takes the place of xdp_port.cpp where Viaduct is built without libxdp.
#include "na/net/raw/xdp_port.hpp"

namespace via::na::net {

base::Result<std::unique_ptr<Port>> open_xdp_port(const LocalInterface& where, std::uint32_t,
                                                  const RawAddress&) {
    return {base::Code::NotSupported, "no AF_XDP on " + where.name +
                                          ": Viaduct was built without it (install libxdp-dev and "
                                          "libbpf-dev and build anew)"};
}

}  // namespace via::na::net
