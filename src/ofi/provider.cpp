// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/provider.hpp"

#include "ofi/fabric.hpp"
#include "ofi/info.hpp"

namespace via::ofi {
namespace {

QueueDepths depths{1024, 1024};

void read_parameters() {
    fi_param_define(&provider, "tx_size", FI_PARAM_SIZE_T,
                    "How many transmit operations the attributes promise to programs that ask for "
                    "no number (default: %zu). How messages travel is chosen by the VIA_* "
                    "settings: see viaduct.conf(5) and `via config`.",
                    depths.transmit);
    fi_param_define(&provider, "rx_size", FI_PARAM_SIZE_T,
                    "How many receives the attributes promise to programs that ask for no number "
                    "(default: %zu).",
                    depths.receive);
    const auto read = [](const char* name, std::size_t& value) {
        std::size_t given = 0;
        if (fi_param_get_size_t(&provider, name, &given) != 0) return;
        if (given == 0 || given > max_queue_depth)
            VIA_OFI_WARN(FI_LOG_CORE, "FI_VIA_%s is not between 1 and %zu: %zu is used\n", name,
                         max_queue_depth, value);
        else
            value = given;
    };
    read("tx_size", depths.transmit);
    read("rx_size", depths.receive);
}

/// Devices are closed with their domains, and the library stays loaded (-z nodelete): there is
/// nothing that a program which ends by exit() without closing would need from here.
void cleanup() {}

}  // namespace

const QueueDepths& queue_depths() noexcept {
    return depths;
}

fi_provider provider = {
    .version = FI_VERSION(1, 0),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .context = {},
    .name = "via",
    .getinfo = get_info,
    .fabric = open_fabric,
    .cleanup = cleanup,
};

}  // namespace via::ofi

extern "C" {
__attribute__((visibility("default"))) fi_provider* fi_prov_ini(void);

fi_provider* fi_prov_ini(void) {
    via::ofi::read_parameters();
    return &via::ofi::provider;
}
}
