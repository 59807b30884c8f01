// SPDX-License-Identifier: BSD-3-Clause
#include "net/net_labs.hpp"

#include <utility>

namespace via::bench {

namespace {

using base::Result;

Result<std::unique_ptr<lab::Lab>> make(unsigned links, unsigned mtu) {
    auto made = lab::Lab::up({.name = {}, .links = links, .mtu = mtu});
    if (!made) return std::move(made).error();
    return std::make_unique<lab::Lab>(std::move(made).value());
}

}  // namespace

Result<NetLabs> NetLabs::up() {
    NetLabs labs;
    const std::pair<std::unique_ptr<lab::Lab>*, lab::LabOptions> wanted[] = {
        {&labs.fast, {.links = 2, .mtu = 1500}},  {&labs.jumbo, {.links = 1, .mtu = 9000}},
        {&labs.equal, {.links = 2, .mtu = 1500}}, {&labs.unequal, {.links = 2, .mtu = 1500}},
        {&labs.lossy, {.links = 2, .mtu = 1500}}, {&labs.distant, {.links = 1, .mtu = 1500}},
    };
    for (const auto& [place, options] : wanted) {
        auto made = make(options.links, options.mtu);
        if (!made) return std::move(made).error();
        *place = std::move(made).value();
    }
    for (const lab::LabLink& link :
         {labs.equal->link(0), labs.equal->link(1), labs.unequal->link(0), labs.lossy->link(0)}) {
        if (auto limited = link.rate(gigabit); !limited) return std::move(limited).error();
    }
    if (auto limited = labs.unequal->link(1).rate(slow_rate); !limited) {
        return std::move(limited).error();
    }
    const auto spoil = [](lab::LinkState& state) {
        state.rate = gigabit;
        state.loss = loss;
        state.offload = false;  // or chance would meet whole trains
    };
    if (const auto spoiled = labs.lossy->link(1).change(spoil); !spoiled) return spoiled.error();
    const auto delayed = labs.distant->link(0).change([&](lab::LinkState& state) {
        spoil(state);
        state.delay = delay;
    });
    if (!delayed) return delayed.error();
    return labs;
}

}  // namespace via::bench
