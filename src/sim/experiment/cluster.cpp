// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/cluster.hpp"

#include <sstream>
#include <utility>

#include "sim/parameters/catalogue.hpp"

namespace via::sim {

base::Result<ViaSystem> load_system(const SystemFiles& files) {
    auto machine = load_parameters(files.machine, "machine", machine_parameters());
    if (!machine) return std::move(machine).error();
    auto nic = load_parameters(files.nic, "nic", nic_parameters());
    if (!nic) return std::move(nic).error();
    if (files.clock) {
        if (!(*files.clock >= 1 && *files.clock <= 1000)) {
            std::ostringstream sentence;
            sentence << "the NIC's clock is " << *files.clock << " MHz; it must be from 1 to 1000";
            return base::Result<ViaSystem>(base::Code::InvalidArgument, sentence.str());
        }
        nic.value().clock = *files.clock;
    }
    // A path is itself.
    std::string name = files.firmware;
    if (name.find('/') == std::string::npos) name += "-" + files.nic;
    auto firmware = load_parameters(name, "firmware", via_firmware_parameters());
    if (!firmware) return std::move(firmware).error();
    return ViaSystem{machine.value(), nic.value(), firmware.value(), files.locality};
}

std::string machine_of_the_paper(const std::string& nic) {
    return nic == "lanai4" ? "p3-733" : "athlon-1400";
}

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
