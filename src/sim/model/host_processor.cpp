// SPDX-License-Identifier: BSD-3-Clause
#include "sim/model/host_processor.hpp"

namespace via::sim {

HostProcessor::HostProcessor(Simulation& simulation, PciBus& bus, const Machine& machine,
                             const std::string& name)
    : simulation_(simulation),
      bus_(bus),
      master_(bus.add_master(name)),
      processor_(simulation, name),
      poll_(microseconds(machine.poll)),
      system_call_(microseconds(machine.system_call)),
      interrupt_(microseconds(machine.interrupt)) {}

Task<> HostProcessor::work(Time duration, std::string_view label, std::uint64_t message) {
    if (duration <= 0) co_return;
    Hold hold = co_await processor_.acquire(label, message);
    co_await simulation_.delay(duration);
}

Task<> HostProcessor::write(std::uint64_t bytes, std::string_view label, std::uint64_t message) {
    Hold hold = co_await processor_.acquire(label, message);
    co_await bus_.write_by_processor(master_, bytes, label, message);
}

}  // namespace via::sim
