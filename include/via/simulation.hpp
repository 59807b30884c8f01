// SPDX-License-Identifier: BSD-3-Clause
// Programs on simulated hosts with the NICs of the papers.
//
//     auto ran = via::simulate({.nic = "lanai9"}, {server, client});
//
// Each function runs on a host of its own, in simulated time, and opens the NIC by its name. One
// runs at a time, so it must not block in anything but the library.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "via/expected.hpp"

namespace via {

struct Simulation {
    std::string nic = "lanai9";  // or "lanai4"; also the device to open
    std::string machine = {};    // empty: the one of the paper
    std::string firmware = {};   // "myvia", "bvia" or "gm"; empty: "myvia"
    double clock_mhz = 0;        // of the NIC; 0: its own
};

// Returns when all have returned. What the first of them throws is thrown again.
inline Expected<void> simulate(const Simulation& simulation,
                               const std::vector<std::function<void()>>& hosts) {
    struct Programs {
        const std::vector<std::function<void()>>& hosts;
        std::vector<std::exception_ptr> failures;
    } programs{hosts, std::vector<std::exception_ptr>(hosts.size())};
    VIPX_SIMULATION plan{};
    plan.Nic = simulation.nic.c_str();
    plan.Machine = simulation.machine.empty() ? nullptr : simulation.machine.c_str();
    plan.Firmware = simulation.firmware.empty() ? nullptr : simulation.firmware.c_str();
    plan.ClockMHz = simulation.clock_mhz;
    plan.Hosts = static_cast<VIP_UINT32>(hosts.size());
    const VIP_RETURN code = VipxSimulate(
        &plan,
        [](VIP_UINT32 number, VIP_PVOID context) {
            auto* all = static_cast<Programs*>(context);
            try {
                all->hosts[number]();
            } catch (...) {
                all->failures[number] = std::current_exception();
            }
        },
        &programs);
    if (code != VIP_SUCCESS) return Error::last(code);
    for (const std::exception_ptr& failure : programs.failures)
        if (failure) std::rethrow_exception(failure);
    return {};
}

// The calling thread's clock: simulated on a simulated host.
inline std::chrono::nanoseconds now() {
    return std::chrono::nanoseconds(VipxNanoseconds());
}

}  // namespace via
