// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/cluster.hpp"

#include <utility>

namespace via::sim {

Cluster::Host::Host(Simulation& simulation, const Machine& machine, std::uint32_t own_number)
    : number(own_number),
      name(host_name(own_number)),
      bus(simulation, machine, name + " bus"),
      processor(simulation, bus, machine, name + " processor") {}

Cluster::Cluster(const ViaSystem& system, std::uint32_t hosts, std::uint32_t links)
    : system_(system) {
    const auto buffers = static_cast<std::uint32_t>(system_.firmware.buffers);
    for (std::uint32_t i = 0; i < hosts; ++i)
        hosts_.push_back(std::make_unique<Host>(simulation_, system_.machine, i));
    for (std::uint32_t link = 0; link < links; ++link) {
        // With a single link nobody needs its number.
        const std::string prefix = links == 1 ? "" : "link " + std::to_string(link) + " ";
        switches_.push_back(
            std::make_unique<Switch>(simulation_, system_.nic, hosts, buffers, prefix));
        for (const auto& host : hosts_) {
            const std::string number = links == 1 ? "" : " " + std::to_string(link);
            host->nics.push_back(std::make_unique<ViaNic>(
                simulation_, host->bus, system_.machine, system_.nic, system_.firmware,
                system_.locality, *switches_.back(), host->number, host->name + " NIC" + number));
            host->nics.back()->start();
        }
    }
}

Task<> Cluster::post(Host& host, std::uint32_t nic, Message message) {
    co_await host.processor.work(microseconds(system_.firmware.host_post), "user agent");
    co_await host.processor.write(static_cast<std::uint64_t>(system_.firmware.host_writes), "post");
    co_await host.nics[nic]->posted().put(std::move(message));
}

}  // namespace via::sim
