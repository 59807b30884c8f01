// SPDX-License-Identifier: BSD-3-Clause
#include "sim/firmware/rhinet.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "sim/core/all.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/pci_bus.hpp"

namespace via::sim {
namespace {

class OneRhinetSend {
  public:
    OneRhinetSend(const Machine& machine, const Rhinet& nic, Bursts bursts, std::uint64_t bytes)
        : nic_(nic),
          bursts_(bursts),
          bytes_(bytes),
          bus_(simulation_, machine),
          master_(bus_.add_master("RHiNET-1")) {}

    [[nodiscard]] base::Result<RhinetSend> run() {
        simulation_.spawn(send());
        if (auto done = simulation_.run(); !done) return std::move(done).error();
        result_.total = simulation_.now();
        std::sort(result_.stages.begin(), result_.stages.end(),
                  [](const RhinetStage& a, const RhinetStage& b) {
                      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
                  });
        return std::move(result_);
    }

  private:
    Task<> send() {
        co_await logic("read SAR", nic_.read_address);
        co_await logic("set up DMA", nic_.setup_transfer);
        co_await fixed("DMA delay", nic_.structure_delay);
        co_await logic("read structure", nic_.read_structure);
        co_await all(data(), header());
        co_await logic("write end of packet", nic_.end_of_packet);
    }
    Task<> data() {
        co_await fixed("delay", nic_.turnaround);
        co_await logic("set up DMA", nic_.setup_transfer);
        co_await fixed("DMA delay", nic_.data_delay);
        co_await all(read_data(), logic("set up FIFO", nic_.setup_fifo, false));
    }
    Task<> header() {
        co_await logic("set up sending", nic_.setup_send, false);
        co_await logic("send header", nic_.send_header, false);
        co_await logic("send delay", nic_.send_delay, false);
    }
    Task<> read_data() {
        const Time begun = simulation_.now();
        if (bursts_ == Bursts::Unbroken) {
            co_await bus_.transfer(master_, Toward::Nic, bytes_, "read data", 0);
        } else {
            const auto burst = static_cast<std::uint64_t>(nic_.burst);
            const std::uint64_t count = (bytes_ + burst - 1) / burst;
            co_await simulation_.delay(cycles(nic_.burst_cycles * static_cast<double>(count)));
        }
        note("read data", begun, true);
    }

    Task<> logic(const char* name, double count, bool on_the_path = true) {
        const Time begun = simulation_.now();
        co_await simulation_.delay(cycles(count));
        note(name, begun, on_the_path);
    }
    Task<> fixed(const char* name, double time) {
        const Time begun = simulation_.now();
        co_await simulation_.delay(nanoseconds(time));
        note(name, begun, true);
    }
    [[nodiscard]] Time cycles(double count) const { return microseconds(count / nic_.clock); }
    void note(const char* name, Time begun, bool on_the_path) {
        result_.stages.push_back({name, begun, simulation_.now(), on_the_path});
    }

    const Rhinet& nic_;
    Bursts bursts_;
    std::uint64_t bytes_;
    Simulation simulation_;
    PciBus bus_;
    Requester master_;
    RhinetSend result_;
};

}  // namespace

std::span<const Declaration<Rhinet>> rhinet_parameters() {
    using R = Rhinet;
    static constexpr std::array declarations{
        Declaration<R>{"clock", "MHz", 1, 1000, &R::clock, "the logic's clock"},
        Declaration<R>{"read_address", "cycles", 0, 1e6, &R::read_address,
                       "reading the register that says where the structure is"},
        Declaration<R>{"setup_transfer", "cycles", 0, 1e6, &R::setup_transfer, "setting up a DMA"},
        Declaration<R>{"structure_delay", "ns", 0, 1e6, &R::structure_delay,
                       "until the structure comes"},
        Declaration<R>{"read_structure", "cycles", 0, 1e6, &R::read_structure,
                       "reading the structure"},
        Declaration<R>{"turnaround", "ns", 0, 1e6, &R::turnaround,
                       "from the structure to the data's DMA"},
        Declaration<R>{"data_delay", "ns", 0, 1e6, &R::data_delay, "until the data comes"},
        Declaration<R>{"burst", "bytes", 4, 4096, &R::burst, "of a short burst"},
        Declaration<R>{"burst_cycles", "cycles", 1, 1000, &R::burst_cycles, "for a short burst"},
        Declaration<R>{"setup_fifo", "cycles", 0, 1e6, &R::setup_fifo, "beside the data"},
        Declaration<R>{"end_of_packet", "cycles", 0, 1e6, &R::end_of_packet,
                       "writing the end of the packet"},
        Declaration<R>{"setup_send", "cycles", 0, 1e6, &R::setup_send,
                       "beside the start of the data's DMA"},
        Declaration<R>{"send_header", "cycles", 0, 1e6, &R::send_header, "likewise"},
        Declaration<R>{"send_delay", "cycles", 0, 1e6, &R::send_delay, "likewise"},
    };
    return declarations;
}

base::Result<RhinetSend> simulate_rhinet_send(const Machine& machine, const Rhinet& nic,
                                              Bursts bursts, std::uint64_t bytes) {
    return OneRhinetSend(machine, nic, bursts, bytes).run();
}

}  // namespace via::sim
