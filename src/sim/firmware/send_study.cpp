// SPDX-License-Identifier: BSD-3-Clause
#include "sim/firmware/send_study.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/core/all.hpp"
#include "sim/core/mailbox.hpp"
#include "sim/core/signal.hpp"
#include "sim/core/simulation.hpp"
#include "sim/model/nic_memory.hpp"
#include "sim/model/nic_processor.hpp"
#include "sim/model/pci_bus.hpp"

namespace via::sim {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t word_bytes = 4;

/// One host, one NIC, one message.
class OneSend {
  public:
    OneSend(const Machine& machine, const Nic& nic, const StudyFirmware& firmware,
            const SendType& type, std::uint64_t bytes)
        : machine_(machine),
          firmware_(firmware),
          type_(type),
          bytes_(bytes),
          bus_(simulation_, machine),
          host_(bus_.add_master("host")),
          fetching_(bus_.add_master("host DMA")),
          memory_(simulation_, nic),
          processor_(simulation_, memory_, nic),
          send_rate_(static_cast<std::uint64_t>(std::min(memory_.engine_rate(), nic.link * 1e6))),
          latency_(nanoseconds(machine.transfer_latency)),
          fetched_(simulation_),
          started_(simulation_),
          finished_(simulation_) {}

    [[nodiscard]] base::Result<SendBreakdown> run(Trace* trace) {
        simulation_.attach(trace);
        simulation_.spawn(host());
        simulation_.spawn(nic());
        if (auto done = simulation_.run(); !done) return std::move(done).error();
        return breakdown_;
    }

  private:
    [[nodiscard]] bool copies_structure() const { return type_.given != Given::ByReference; }
    [[nodiscard]] bool copies_data() const { return type_.given == Given::StructureAndData; }
    [[nodiscard]] std::uint64_t pages() const { return (bytes_ + page_bytes - 1) / page_bytes; }
    [[nodiscard]] std::uint64_t structure_bytes() const {
        return static_cast<std::uint64_t>(firmware_.structure_bytes);
    }

    Task<> host() {
        Time begun = simulation_.now();
        const auto lap = [&](Time& part) {
            part = simulation_.now() - begun;
            begun = simulation_.now();
        };
        if (copies_structure() && !type_.without_dma) {
            co_await bus_.write_by_processor(host_, structure_bytes(), "copy structure", 0);
            lap(breakdown_.copy_structure);
        }
        if (copies_data() && !type_.without_dma) {
            co_await bus_.write_by_processor(host_, bytes_, "copy data", 0);
            lap(breakdown_.copy_data);
        }
        double start = copies_data()        ? machine_.start_with_data
                       : copies_structure() ? machine_.start_with_structure
                                            : machine_.start_by_reference;
        if (type_.by_system_call) {
            start += machine_.system_call;
            // The driver knows where the pages are.
            if (!copies_data()) start += machine_.page_list_entry * static_cast<double>(pages());
        }
        // Without DMA the study gives the whole time only.
        if (!type_.without_dma) co_await simulation_.delay(microseconds(start));
        lap(breakdown_.start);
        started_.raise();
        co_await finished_.wait();
        co_await simulation_.delay(microseconds(machine_.poll));
        lap(breakdown_.wait);
    }

    Task<> nic() {
        co_await started_.wait();
        if (type_.without_dma) {
            const std::uint64_t words = (bytes_ + word_bytes - 1) / word_bytes;
            co_await processor_.work(
                firmware_.cpu_only + firmware_.cpu_only_word * static_cast<double>(words), "send",
                0);
            finished_.raise();
            co_return;
        }
        co_await processor_.work(firmware_.notice, "notice", 0);
        if (!copies_structure()) {
            co_await processor_.work(translate() + firmware_.start_transfer, "find structure", 0);
            co_await fetch(structure_bytes(), "fetch structure");
        }
        if (copies_data()) {
            co_await processor_.work(firmware_.header, "header", 0);
            co_await send(std::max(bytes_, static_cast<std::uint64_t>(firmware_.send_unit)));
        } else {
            // The header is made while the data comes, and sent with the first of it.
            co_await processor_.work(translate() + firmware_.start_transfer, "find data", 0);
            co_await all(fetch_data(), header_and_body());
        }
        co_await processor_.work(firmware_.completion, "completion", 0);
        co_await store(static_cast<std::uint64_t>(firmware_.completion_bytes), "completion");
        finished_.raise();
    }

    /// Addresses that come from the driver are physical.
    [[nodiscard]] double translate() const {
        return type_.by_system_call ? 0 : firmware_.translate;
    }

    Task<> fetch_data() {
        const auto chunk = static_cast<std::uint64_t>(firmware_.chunk);
        std::uint64_t done = 0;
        while (done < bytes_) {
            // A transfer ends with its page; the next page is found while this one comes.
            const std::uint64_t in_page = std::min(page_bytes, bytes_ - done);
            co_await simulation_.delay(done == 0 ? latency_ : 0);
            for (std::uint64_t moved = 0; moved < in_page;) {
                const std::uint64_t now = std::min(chunk, in_page - moved);
                co_await move(Toward::Nic, now, "fetch data");
                co_await fetched_.put(now);
                moved += now;
            }
            done += in_page;
        }
    }

    Task<> header_and_body() {
        co_await processor_.work(firmware_.header, "header", 0);
        for (std::uint64_t sent = 0; sent < bytes_;) {
            const std::uint64_t chunk = co_await fetched_.take();
            sent += chunk;
            co_await send(std::max(chunk, static_cast<std::uint64_t>(firmware_.send_unit)));
        }
    }

    Task<> send(std::uint64_t bytes) {
        const Time begun = simulation_.now();
        {
            const Hold access = co_await memory_.access();
            const NicMemory::Use use(memory_, static_cast<double>(send_rate_.per_second()));
            co_await simulation_.delay(send_rate_.time_for(bytes));
        }
        simulation_.record(begun, "send DMA", "send", 0);
    }

    Task<> move(Toward toward, std::uint64_t bytes, std::string_view label) {
        const Hold access = co_await memory_.access();
        const NicMemory::Use use(memory_, bus_.rate(toward));
        co_await bus_.transfer(fetching_, toward, bytes, label, 0);
    }
    Task<> fetch(std::uint64_t bytes, std::string_view label) {
        co_await simulation_.delay(latency_);
        co_await move(Toward::Nic, bytes, label);
    }
    Task<> store(std::uint64_t bytes, std::string_view label) {
        co_await simulation_.delay(latency_);
        co_await move(Toward::Host, bytes, label);
    }

    const Machine& machine_;
    const StudyFirmware& firmware_;
    SendType type_;
    std::uint64_t bytes_;
    Simulation simulation_;
    PciBus bus_;
    Requester host_;
    Requester fetching_;
    NicMemory memory_;
    NicProcessor processor_;
    Rate send_rate_;
    Time latency_;
    Mailbox<std::uint64_t> fetched_;
    Signal started_;
    Signal finished_;
    SendBreakdown breakdown_;
};

}  // namespace

std::optional<SendType> send_type(std::string_view name) {
    static constexpr std::array<std::pair<std::string_view, SendType>, 7> types{{
        {"User", {Given::ByReference, false, false}},
        {"User:ST", {Given::Structure, false, false}},
        {"User:ST,DT", {Given::StructureAndData, false, false}},
        {"Syscall", {Given::ByReference, true, false}},
        {"Syscall:ST", {Given::Structure, true, false}},
        {"Syscall:ST,DT", {Given::StructureAndData, true, false}},
        {"cpu", {Given::StructureAndData, false, true}},
    }};
    for (const auto& [text, type] : types)
        if (text == name) return type;
    return std::nullopt;
}

std::span<const Declaration<StudyFirmware>> study_firmware_parameters() {
    using F = StudyFirmware;
    static constexpr std::array declarations{
        Declaration<F>{"notice", "cycles", 0, 1e6, &F::notice,
                       "until the firmware's loop sees that something was started"},
        Declaration<F>{"translate", "cycles", 0, 1e6, &F::translate, "one virtual address"},
        Declaration<F>{"start_transfer", "cycles", 0, 1e6, &F::start_transfer, "starting a DMA"},
        Declaration<F>{"header", "cycles", 0, 1e6, &F::header, "making the packet's header"},
        Declaration<F>{"completion", "cycles", 0, 1e6, &F::completion,
                       "making the completion and starting its DMA"},
        Declaration<F>{"structure_bytes", "bytes", 1, 4096, &F::structure_bytes,
                       "the instruction structure"},
        Declaration<F>{"completion_bytes", "bytes", 1, 4096, &F::completion_bytes,
                       "written to the host in the end"},
        Declaration<F>{"send_unit", "bytes", 1, 4096, &F::send_unit, "what is sent at least"},
        Declaration<F>{"chunk", "bytes", 1, 65536, &F::chunk,
                       "fetched before it is sent on, while more is fetched"},
        Declaration<F>{"cpu_only", "cycles", 0, 1e6, &F::cpu_only,
                       "a send without DMA, before its first word"},
        Declaration<F>{"cpu_only_word", "cycles", 0, 1e6, &F::cpu_only_word,
                       "for each word of a send without DMA"},
    };
    return declarations;
}

base::Result<SendBreakdown> simulate_send(const Machine& machine, const Nic& nic,
                                          const StudyFirmware& firmware, const SendType& type,
                                          std::uint64_t bytes, Trace* trace) {
    return OneSend(machine, nic, firmware, type, bytes).run(trace);
}

}  // namespace via::sim
