// SPDX-License-Identifier: BSD-3-Clause
// A VI as the firmware of a simulated NIC has it: its rings in NIC memory, the receives that are
// posted, the connection, and what the host has not been told yet. Whoever touches it holds the
// world's lock. It lives as long as a message of it is under way.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ka/client.hpp"
#include "na/physical_descriptor.hpp"
#include "na/sim/descriptor_ring.hpp"
#include "na/sim/world.hpp"
#include "na/work_queue.hpp"

namespace via::na::sim {

/// What the host sees when it polls.
struct HostNews {
    bool receive = false;
    std::uint64_t number = 0;  ///< of the work entry
    std::uint32_t status = 0;
    std::uint32_t length = 0;
    std::uint32_t immediate = 0;
    std::uint64_t order = 0;
    bool remote_write = false;  ///< it completes a receive because an RDMA write had immediate data
};

class NicVi : public std::enable_shared_from_this<NicVi> {
  public:
    static constexpr std::uint64_t no_news = ~std::uint64_t{0};

    NicVi(World& world, std::uint32_t host, ka::RmmtView rmmt, std::uint32_t small_ring,
          std::uint32_t low_water);

    struct Chain {
        std::uint64_t number = 0;  ///< of the work entry
        std::vector<PhysicalDescriptor> pds;
        [[nodiscard]] ChainHead head() const noexcept { return decode_head(pds.front()); }
        /// The data PDs, behind head and remote address.
        [[nodiscard]] std::span<const PhysicalDescriptor> segments() const noexcept {
            return std::span(pds).subspan(head().has_address() ? 2 : 1);
        }
        [[nodiscard]] const PhysicalDescriptor& remote() const noexcept { return pds[1]; }
    };

    // --- the host's side ---
    /// Both ends are known to each other from now on.
    static void connect(NicVi& one, NicVi& other, const ka::EndpointAttributes& of_one,
                        const ka::EndpointAttributes& of_other);
    /// Nothing of the present connection reaches the host any more; the peer is told.
    void disconnect();
    [[nodiscard]] bool connected() const noexcept { return connection_ != 0; }
    /// The host's part of posting a send, to be performed in the host's time.
    [[nodiscard]] model::Task<> post(Chain chain);
    void post_receive(Chain chain) { receives_.push_back(std::move(chain)); }
    [[nodiscard]] bool has_news() const noexcept { return !news_.empty() || events_ != 0; }
    /// When the oldest news came, among all of the world.
    [[nodiscard]] std::uint64_t oldest_news() const noexcept {
        return news_.empty() ? no_news : news_.front().order;
    }
    [[nodiscard]] std::optional<HostNews> take_news();
    /// What happened besides comes last.
    [[nodiscard]] std::uint32_t take_events() noexcept {
        return news_.empty() ? std::exchange(events_, 0) : 0;
    }
    [[nodiscard]] std::uint32_t host() const noexcept { return host_; }
    [[nodiscard]] bool unfinished() const noexcept { return sends_ != 0; }

    // --- the firmware's side, for transfers ---
    /// Identifies the present connection; 0: none.
    [[nodiscard]] std::uint64_t connection() const noexcept { return connection_; }
    [[nodiscard]] const ka::EndpointAttributes& local() const noexcept { return local_; }
    [[nodiscard]] bool reliable() const noexcept { return local_.reliability != unreliable; }
    [[nodiscard]] bool acknowledged() const noexcept {
        return local_.reliability == reliable_reception;
    }
    [[nodiscard]] DescriptorRing& ring() noexcept { return *ring_; }
    [[nodiscard]] model::ViaNic& nic() noexcept;
    /// Messages are numbered as they are matched. Behind one that breaks a reliable connection
    /// nothing is delivered; what came before it is.
    [[nodiscard]] std::uint64_t next_match() noexcept { return ++matches_; }
    [[nodiscard]] bool halted(std::uint64_t match) const noexcept { return match > last_good_; }
    void halt_if_reliable(std::uint64_t match) noexcept {
        if (reliable() && match < last_good_) last_good_ = match;
    }
    [[nodiscard]] std::deque<Chain>& receives() noexcept { return receives_; }
    void complete(HostNews news);
    void complete_send(std::uint64_t number, std::uint32_t status, std::uint32_t length);
    void report(EndpointEvent event);
    /// A program may be looking at the memory that was written.
    void memory_changes() { world_.tell(host_); }
    /// Messages that have left the peer and have not ended here.
    void arrival_begins() noexcept { ++arrivals_; }
    void arrival_ends();
    void peer_closes();
    void read_ends();
    /// May memory be touched, by this VI or (with a right) by its peer?
    [[nodiscard]] bool allows(const PhysicalDescriptor& pd, std::uint32_t right) const;

  private:
    void release_fenced();
    [[nodiscard]] model::Task<> post_now(Chain chain);

    World& world_;  ///< not owned: what is under way in a world ends with it
    std::uint32_t host_;
    ka::RmmtView rmmt_;
    std::shared_ptr<DescriptorRing> ring_;
    std::uint64_t connection_ = 0;
    std::shared_ptr<NicVi> peer_;
    ka::EndpointAttributes local_;
    static constexpr std::uint64_t no_end = ~std::uint64_t{0};
    std::uint64_t matches_ = 0;
    std::uint64_t last_good_ = no_end;  ///< the message that broke the connection
    bool peer_closed_ = false;          ///< and what it sent before is still coming
    std::uint32_t arrivals_ = 0;        ///< messages under way to this VI
    std::uint32_t sends_ = 0;           ///< posted and not complete
    std::uint32_t reads_ = 0;           ///< RDMA reads posted and not complete
    std::deque<Chain> fenced_;          ///< wait for reads, or behind one that does
    std::deque<Chain> receives_;        ///< posted, in order
    std::deque<HostNews> news_;
    std::uint32_t events_ = 0;
};

}  // namespace via::na::sim
