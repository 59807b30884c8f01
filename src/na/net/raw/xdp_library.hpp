// SPDX-License-Identifier: BSD-3-Clause
// libxdp and libbpf, loaded when AF_XDP is first asked for: no program needs them otherwise.
#pragma once

#include <bpf/bpf.h>
#include <xdp/xsk.h>

#include "base/result.hpp"

namespace via::na::net {

struct XdpLibrary {
    decltype(&::xsk_umem__create) umem_create = nullptr;
    decltype(&::xsk_umem__delete) umem_delete = nullptr;
    decltype(&::xsk_socket__create_shared) socket_create = nullptr;
    decltype(&::xsk_socket__delete) socket_delete = nullptr;
    decltype(&::xsk_socket__fd) socket_descriptor = nullptr;
    decltype(&::bpf_map_create) map_create = nullptr;
    decltype(&::bpf_map_update_elem) map_update = nullptr;
    decltype(&::bpf_map_delete_elem) map_delete = nullptr;
    decltype(&::bpf_prog_load) program_load = nullptr;
    decltype(&::bpf_link_create) link_create = nullptr;

    /// The one of this process. Fails where the library is not installed.
    [[nodiscard]] static base::Result<const XdpLibrary*> get();
};

}  // namespace via::na::net
