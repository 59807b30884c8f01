// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/raw/xdp_library.hpp"

#include <dlfcn.h>

#include <string>

namespace via::na::net {
namespace {

struct Loaded {
    XdpLibrary library;
    std::string problem;
};

Loaded load() {
    Loaded loaded;
    // libbpf comes with it, and dlsym looks there too.
    void* handle = ::dlopen("libxdp.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        loaded.problem = ::dlerror();
        return loaded;
    }
    const auto find = [&](auto& function, const char* name) {
        void* address = ::dlsym(handle, name);
        if (address == nullptr) loaded.problem = std::string("libxdp.so.1 has no ") + name;
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    };
    XdpLibrary& library = loaded.library;
    find(library.umem_create, "xsk_umem__create");
    find(library.umem_delete, "xsk_umem__delete");
    find(library.socket_create, "xsk_socket__create_shared");
    find(library.socket_delete, "xsk_socket__delete");
    find(library.socket_descriptor, "xsk_socket__fd");
    find(library.map_create, "bpf_map_create");
    find(library.map_update, "bpf_map_update_elem");
    find(library.map_delete, "bpf_map_delete_elem");
    find(library.program_load, "bpf_prog_load");
    find(library.link_create, "bpf_link_create");
    return loaded;
}

}  // namespace

base::Result<const XdpLibrary*> XdpLibrary::get() {
    // Never destroyed: ports may outlive the statics.
    static const Loaded& loaded = *new Loaded(load());
    if (!loaded.problem.empty())
        return {base::Code::NotSupported,
                "the library of AF_XDP cannot be used (install libxdp1): " + loaded.problem};
    return &loaded.library;
}

}  // namespace via::na::net
