// SPDX-License-Identifier: BSD-3-Clause
// Who should do the work: one send on a LANai 4, in the seven ways of the mechanisms study.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "sim/core/time.hpp"
#include "sim/core/trace.hpp"
#include "sim/model/machine.hpp"
#include "sim/model/nic.hpp"
#include "sim/parameters/declaration.hpp"

namespace via::sim {

/// What gives the NIC the instruction structure (ST) and the data (DT): their addresses, or copies.
enum class Given : std::uint8_t { ByReference, Structure, StructureAndData };

struct SendType {
    Given given = Given::ByReference;
    bool by_system_call = false;
    bool without_dma = false;  ///< "cpu": the LANai's processor moves every word
};
/// "User", "User:ST", "User:ST,DT", "Syscall", "Syscall:ST", "Syscall:ST,DT", "cpu".
[[nodiscard]] std::optional<SendType> send_type(std::string_view name);
inline constexpr std::string_view send_type_names =
    "cpu, User, User:ST, User:ST,DT, Syscall, Syscall:ST, Syscall:ST,DT";

/// The study's firmware, in cycles of the NIC's clock unless it says otherwise.
struct StudyFirmware {
    double notice = 0;            ///< until its loop sees that something was started
    double translate = 0;         ///< one virtual address
    double start_transfer = 0;    ///< of a DMA
    double header = 0;            ///< made and written into the packet
    double completion = 0;        ///< made, its DMA started
    double structure_bytes = 0;   ///< bytes
    double completion_bytes = 0;  ///< bytes
    double send_unit = 0;         ///< bytes: less is not sent
    double chunk = 0;             ///< bytes fetched before they are sent on, while more is fetched
    double cpu_only = 0;          ///< a send without DMA, before its first word
    double cpu_only_word = 0;     ///< for each word of 4 bytes then
};
[[nodiscard]] std::span<const Declaration<StudyFirmware>> study_firmware_parameters();

struct SendBreakdown {
    Time copy_structure = 0;
    Time copy_data = 0;
    Time start = 0;
    Time wait = 0;
    [[nodiscard]] Time total() const noexcept { return copy_structure + copy_data + start + wait; }
};

[[nodiscard]] base::Result<SendBreakdown> simulate_send(const Machine& machine, const Nic& nic,
                                                        const StudyFirmware& firmware,
                                                        const SendType& type, std::uint64_t bytes,
                                                        Trace* trace = nullptr);

}  // namespace via::sim
