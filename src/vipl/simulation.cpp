// SPDX-License-Identifier: BSD-3-Clause
// VipxSimulate and VipxNanoseconds.
#include "base/clock.hpp"
#include "na/sim/world.hpp"
#include "vipl/error_text.hpp"
#include "vipl/guard.hpp"
#include "vipx.h"

using namespace via;
using vipl::failed;

namespace {

std::string text_of(const VIP_CHAR* text) {
    return text == nullptr ? std::string() : std::string(text);
}

}  // namespace

extern "C" {

VIP_RETURN VipxSimulate(const VIPX_SIMULATION* Simulation,
                        void (*Host)(VIP_UINT32 Number, VIP_PVOID Context), VIP_PVOID Context) {
    return vipl::guarded(__func__, [&]() -> VIP_RETURN {
        if (Simulation == nullptr || Host == nullptr || Simulation->Nic == nullptr)
            return failed("VipxSimulate", VIP_INVALID_PARAMETER,
                          "Simulation, its Nic, or Host is NULL");
        if (na::sim::World::of_thread() != nullptr)
            return failed("VipxSimulate", VIP_INVALID_PARAMETER,
                          "a simulated host can not simulate hosts");
        auto world = na::sim::World::create({text_of(Simulation->Nic), text_of(Simulation->Machine),
                                             text_of(Simulation->Firmware), Simulation->ClockMHz,
                                             Simulation->Hosts});
        if (!world) return failed("VipxSimulate", world.error());
        world.value()->run([&](std::uint32_t number) { Host(number, Context); });
        return VIP_SUCCESS;
    });
}

VIP_UINT64 VipxNanoseconds(void) {
    return static_cast<VIP_UINT64>(base::monotonic_now());
}

}  // extern "C"
