// SPDX-License-Identifier: BSD-3-Clause
// The one place that knows which NIC agents there are. A new NIC is one line here.
#include <array>
#include <cstdlib>
#include <deque>

#include "na/auto/auto_nic_agent.hpp"
#include "na/net/net_nic_agent.hpp"
#include "na/shm/shm_nic_agent.hpp"
#include "na/sim/sim_nic_agent.hpp"
#include "ua/process.hpp"

namespace via::ua {
namespace {

std::unique_ptr<na::NicAgent> create_shm(Process& process) {
    return std::make_unique<na::shm::ShmNicAgent>(process.agent(), process.doorbell(),
                                                  process.service());
}

std::unique_ptr<na::NicAgent> create_net(Process& process) {
    return std::make_unique<na::net::NetNicAgent>(process.agent(), process.service());
}

std::unique_ptr<na::NicAgent> create_auto(Process& process) {
    return std::make_unique<na::any::AutoNicAgent>(
        process.agent(), [&process](const char* name) { return process.device(name); });
}

std::unique_ptr<na::NicAgent> create_lanai4(Process& process) {
    return std::make_unique<na::sim::SimNicAgent>("lanai4", process.agent(), process.service());
}

std::unique_ptr<na::NicAgent> create_lanai9(Process& process) {
    return std::make_unique<na::sim::SimNicAgent>("lanai9", process.agent(), process.service());
}

constexpr std::array devices{
    DeviceEntry{"shm0", create_shm},
    DeviceEntry{"net0", create_net},
    DeviceEntry{"auto", create_auto},
    // The NICs of the papers, simulated.
    DeviceEntry{"lanai4", create_lanai4},
    DeviceEntry{"lanai9", create_lanai9},
};

std::deque<DeviceEntry>& added_devices() {
    static auto* added = new std::deque<DeviceEntry>;  // entries keep their addresses
    return *added;
}

/// Where the names that programs of other VIA providers have compiled in lead to.
constexpr std::string_view default_device = "shm0";

bool starts_with_then_digits(std::string_view name, std::string_view prefix) noexcept {
    if (!name.starts_with(prefix)) return false;
    for (const char c : name.substr(prefix.size()))
        if (c < '0' || c > '9') return false;
    return true;
}

bool is_foreign_name(std::string_view name) noexcept {
    return name.starts_with("/dev/via_") || name == "/etc/via_lo" ||
           starts_with_then_digits(name, "/dev/clanvi") || starts_with_then_digits(name, "VINIC") ||
           (starts_with_then_digits(name, "nic") && name.size() > 3) ||
           (starts_with_then_digits(name, "\\\\.\\VI") && name.size() > 6);
}

}  // namespace

const DeviceEntry* find_device(std::string_view name) noexcept {
    for (const DeviceEntry& entry : devices)
        if (entry.name == name) return &entry;
    for (const DeviceEntry& entry : added_devices())
        if (entry.name == name) return &entry;
    return nullptr;
}

void add_device(const DeviceEntry& entry) {
    added_devices().push_back(entry);
}

std::string resolve_device_name(std::string_view given) {
    std::string name(given);
    // "VINIC0" may be mapped by an environment variable of the same name. Such variables may lead
    // in a circle.
    for (int steps = 0; steps < 8; ++steps) {
        if (find_device(name) != nullptr) return name;
        const char* mapped =
            starts_with_then_digits(name, "VINIC") ? std::getenv(name.c_str()) : nullptr;
        if (mapped == nullptr || name == mapped) break;
        name = mapped;
    }
    return std::string(is_foreign_name(name) ? default_device : "");
}

}  // namespace via::ua
