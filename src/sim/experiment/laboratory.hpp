// SPDX-License-Identifier: BSD-3-Clause
// All systems of the catalogue in one place, to be asked for what the papers measured. Equal
// questions are simulated once; any parameter can be changed for all that use it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "sim/experiment/mnc_experiment.hpp"
#include "sim/experiment/via_experiment.hpp"
#include "sim/firmware/rhinet.hpp"
#include "sim/firmware/send_study.hpp"
#include "sim/parameters/declaration.hpp"

namespace via::sim {

/// Two hosts with NICs, by the names of their files; "gm" on "lanai9" is gm-lanai9.
struct SystemName {
    std::string_view machine;
    std::string_view nic;
    std::string_view firmware;
    double clock = 0;  ///< MHz of the NIC; 0: as its file says
    Locality locality = Locality::Good;
};

class Laboratory {
  public:
    /// Streams are of so many messages, or of fewer where all together would be too many bytes.
    struct Effort {
        std::uint64_t messages = 2000;
        std::uint64_t bytes = 256U << 20;
        std::uint64_t round_trips = 100;
    };

    /// A laboratory with a failure answers every question with 0.
    explicit Laboratory(Effort effort);
    Laboratory() : Laboratory(Effort{}) {}

    /// What went wrong first, if anything did.
    [[nodiscard]] const std::optional<base::Error>& failure() const noexcept { return failure_; }

    // ---- the mechanisms study -------------------------------------------------------------------

    [[nodiscard]] SendBreakdown send(std::string_view type, std::uint64_t bytes);
    /// MB/s until the user program sees the end.
    [[nodiscard]] double send_rate(std::string_view type, std::uint64_t bytes);
    [[nodiscard]] RhinetSend rhinet(double clock, Bursts bursts, std::uint64_t bytes);

    // ---- two hosts ------------------------------------------------------------------------------

    [[nodiscard]] ViaSystem system(const SystemName& name);
    [[nodiscard]] double window(const SystemName& name, std::uint64_t bytes);    ///< MB/s
    [[nodiscard]] double pingpong(const SystemName& name, std::uint64_t bytes);  ///< µs one way
    /// MB/s of each.
    [[nodiscard]] std::array<double, 2> flows(const SystemName& name, Flows flows,
                                              std::uint64_t bytes);
    [[nodiscard]] double mnc_window(const SystemName& gm, std::uint32_t links, LinkPolicy policy,
                                    std::uint64_t bytes);
    [[nodiscard]] double mnc_pingpong(const SystemName& gm, std::uint32_t links, LinkPolicy policy,
                                      std::uint64_t bytes);

    // The same of a system that is in no file.
    [[nodiscard]] double window(const ViaSystem& system, std::uint64_t bytes);
    [[nodiscard]] double pingpong(const ViaSystem& system, std::uint64_t bytes);
    [[nodiscard]] std::array<double, 2> flows(const ViaSystem& system, Flows flows,
                                              std::uint64_t bytes);
    [[nodiscard]] double mnc_window(const MncSystem& system, std::uint64_t bytes);
    [[nodiscard]] double send_rate(const Nic& nic, std::string_view type, std::uint64_t bytes);

    [[nodiscard]] const Machine& machine(std::string_view name);
    [[nodiscard]] const Nic& nic(std::string_view name);

    // ---- parameters -----------------------------------------------------------------------------

    /// By the file's name, such as "p2-300.machine".
    [[nodiscard]] const std::map<std::string, std::vector<KnownParameter>>& parameters()
        const noexcept {
        return known_;
    }
    /// Multiplies a value. All answers so far are forgotten.
    void scale(std::string_view file, std::string_view parameter, double factor);
    /// The files that were used since the last call.
    [[nodiscard]] std::set<std::string> take_used() { return std::exchange(used_, {}); }

  private:
    using Answer = std::array<double, 2>;
    template <class Structure>
    using Shelf = std::map<std::string, Structure, std::less<>>;

    template <class Structure>
    void load(Shelf<Structure>& shelf, std::string_view name, std::string_view kind,
              std::span<const Declaration<Structure>> declarations);
    template <class Structure>
    void scale_in(Shelf<Structure>& shelf, std::string_view file, std::string_view parameter,
                  double factor, std::span<const Declaration<Structure>> declarations);
    template <class Structure>
    [[nodiscard]] const Structure& pick(const Shelf<Structure>& shelf, const std::string& file);
    /// The value, or 0 and the failure is noted.
    template <class T>
    [[nodiscard]] T note(base::Result<T> result);
    [[nodiscard]] SendBreakdown send(const Nic& nic, std::string_view type, std::uint64_t bytes);
    [[nodiscard]] Answer remember(const std::string& question,
                                  const std::function<Answer()>& simulate);
    [[nodiscard]] std::uint64_t messages_of(std::uint64_t bytes) const;

    Effort effort_;
    Shelf<Machine> machines_;
    Shelf<Nic> nics_;
    Shelf<Rhinet> rhinets_;
    Shelf<StudyFirmware> study_;
    Shelf<ViaFirmware> firmware_;
    std::map<std::string, std::vector<KnownParameter>> known_;
    std::map<std::string, Answer> answers_;
    std::set<std::string> used_;
    std::optional<base::Error> failure_;
};

}  // namespace via::sim
