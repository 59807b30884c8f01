// SPDX-License-Identifier: BSD-3-Clause
// Simulated hosts: each with a bus and one or several NICs on it. The first NICs of all hosts are
// on one switch, the second ones on another, and so on: each switch is a link between any two
// hosts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sim/core/simulation.hpp"
#include "sim/firmware/via_firmware.hpp"
#include "sim/model/host_processor.hpp"

namespace via::sim {

struct ViaSystem {
    Machine machine;
    Nic nic;
    ViaFirmware firmware;
    Locality locality = Locality::Good;
};

/// By the names of parameter files, or their paths. "gm" on "lanai9" is gm-lanai9.
struct SystemFiles {
    std::string machine;
    std::string nic;
    std::string firmware;
    std::optional<double> clock;  ///< MHz of the NIC; none: as its file says
    Locality locality = Locality::Good;
};
[[nodiscard]] base::Result<ViaSystem> load_system(const SystemFiles& files);
/// Where the paper about MyVIA had that NIC.
[[nodiscard]] std::string machine_of_the_paper(const std::string& nic);

class Cluster {
  public:
    Cluster(const ViaSystem& system, std::uint32_t hosts, std::uint32_t links = 1);

    struct Host {
        Host(Simulation& simulation, const Machine& machine, std::uint32_t own_number);
        std::uint32_t number;
        std::string name;
        PciBus bus;
        HostProcessor processor;
        std::vector<std::unique_ptr<ViaNic>> nics;
    };

    [[nodiscard]] Simulation& simulation() noexcept { return simulation_; }
    [[nodiscard]] const ViaSystem& system() const noexcept { return system_; }
    [[nodiscard]] Host& host(std::uint32_t number) noexcept { return *hosts_[number]; }
    [[nodiscard]] std::uint32_t hosts() const noexcept {
        return static_cast<std::uint32_t>(hosts_.size());
    }

    /// The host posts a message: the user agent's work, then what it writes into NIC memory.
    [[nodiscard]] Task<> post(Host& host, std::uint32_t nic, Message message);
    /// What a program spends on finding that something has come.
    [[nodiscard]] Time poll_time() const noexcept { return microseconds(system_.machine.poll); }

  private:
    ViaSystem system_;
    Simulation simulation_;
    std::vector<std::unique_ptr<Switch>> switches_;
    std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace via::sim
