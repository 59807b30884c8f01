// SPDX-License-Identifier: BSD-3-Clause
// One VI of one process of the soak: posts what the plan says, and looks at what completes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "na/seeded.hpp"
#include "system/soak_area.hpp"
#include "system/soak_plan.hpp"
#include "vipl/harness.hpp"

namespace via::test {

inline constexpr std::size_t most_outstanding = 64;

/// Where the peer may write and read.
struct Exposed {
    Remote window;
    Remote source;
};

/// One VI of one process: what it initiates, what comes in.
class Lane {
  public:
    Lane(Nic& nic, const ViOptions& options, std::uint32_t number, Random& random);

    [[nodiscard]] Vi& vi() { return *vi_; }
    [[nodiscard]] VIP_CQ_HANDLE send_cq() const { return send_cq_; }
    [[nodiscard]] VIP_CQ_HANDLE recv_cq() const { return recv_cq_; }
    [[nodiscard]] Exposed exposed() const;
    void know_peer(const Exposed& exposed) { peer_ = exposed; }

    /// Draws both plans, fills what will be sent and read, posts all receives.
    void prepare(std::uint64_t own_seed, std::uint64_t peer_seed);

    [[nodiscard]] bool all_posted() const { return posted_ == outgoing_.size(); }
    [[nodiscard]] bool sends_pending() const { return sent_ != posted_; }
    [[nodiscard]] bool receives_pending() const { return received_ != receives_.size(); }
    [[nodiscard]] bool done() const {
        return all_posted() && !sends_pending() && !receives_pending();
    }
    [[nodiscard]] bool can_post() const {
        return !all_posted() && posted_ - sent_ < most_outstanding;
    }

    void post_next();
    void take_send(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor);
    void take_receive(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor);
    bool poll_send();
    bool poll_receive();
    void wait_send();
    void wait_receive();
    void check_and_restore(bool whole);

    /// What has not happened yet, for a message about a wait that was too long.
    [[nodiscard]] std::string standing() const;

  private:
    void keep(AreaName area, std::vector<Extent> extents, bool fill_now);
    [[nodiscard]] std::vector<Segment> segments_in(AreaName area,
                                                   const std::vector<Piece>& pieces) const;
    VIP_DESCRIPTOR* new_descriptor(std::size_t segments);
    static void check_completion(VIP_RETURN code, const VIP_DESCRIPTOR* descriptor,
                                 const VIP_DESCRIPTOR* wanted, std::uint32_t status,
                                 std::uint32_t bytes, const std::string& what);
    [[nodiscard]] std::string name() const;
    [[nodiscard]] std::string describe(const Step& step, std::size_t number,
                                       const std::vector<Piece>& pieces) const;
    [[nodiscard]] std::string sending(std::size_t number) const;
    [[nodiscard]] std::string receiving(std::size_t number) const;

    std::uint32_t number_;
    VIP_CQ_HANDLE send_cq_;
    VIP_CQ_HANDLE recv_cq_;
    VIP_RELIABILITY_LEVEL level_;
    bool reads_;
    std::uint32_t most_segments_;
    Area descriptors_;
    std::array<std::unique_ptr<Area>, area_count> areas_;
    std::optional<Vi> vi_;  // its memory outlives it
    Exposed peer_;

    std::vector<Step> outgoing_;
    std::vector<Step> incoming_;
    std::vector<std::size_t> consumers_;  ///< the incoming steps that take a receive
    std::array<std::vector<Extent>, area_count> extents_;
    std::uint32_t descriptor_bytes_ = 0;
    std::vector<VIP_DESCRIPTOR*> sends_;
    std::vector<VIP_DESCRIPTOR*> receives_;
    std::size_t posted_ = 0;
    std::size_t sent_ = 0;
    std::size_t received_ = 0;
    std::size_t writes_checked_ = 0;
};

}  // namespace via::test
