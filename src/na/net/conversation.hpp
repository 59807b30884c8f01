// SPDX-License-Identifier: BSD-3-Clause
// Both machines of a connection, session and transport, with the ports they run on. It belongs to
// an endpoint, and after a disconnect to nobody until goodbye is said.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "base/quick_clock.hpp"
#include "links/transport.hpp"
#include "na/net/port.hpp"
#include "na/net/respite.hpp"
#include "na/net/session.hpp"

namespace via::na::net {

struct LinkEnd {
    std::unique_ptr<Port> port;
    std::string description;      ///< "eth0 10.0.0.1 - 10.0.0.2"
    std::uint32_t interface = 0;  ///< of this host
    std::uint32_t packet_bytes = 0;
    std::uint32_t window_bytes = 0;
    bool short_only = false;  ///< not for bulk
};

class Conversation final : private links::Output, private PacketTaker {
  public:
    Conversation(QueuePair& queues, ka::RmmtView rmmt, const links::TransportTerms& terms,
                 std::vector<LinkEnd> links, base::Nanoseconds cork, base::Nanoseconds now);
    ~Conversation() override;
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    /// New chains in the send queue go out: at once if nothing is under way, in trains otherwise.
    void post();
    /// As Endpoint::take_send(), but that it goes out with the next post().
    [[nodiscard]] bool take_send(std::uint64_t entry, PhysicalDescriptor segment,
                                 bool has_immediate, std::uint32_t immediate) {
        return session_.take_send(entry, segment, has_immediate, immediate);
    }
    /// Takes what has come, sends what can be sent, sees to what is due. True: something came.
    /// `polled`: it will be called again at once; otherwise nothing is put off.
    bool poll(bool polled);
    /// As Endpoint::respite(). What the peer waits for is sent before.
    [[nodiscard]] base::Nanoseconds respite();
    void disconnect();
    [[nodiscard]] bool said_goodbye() const noexcept { return transport_.closed(); }
    [[nodiscard]] bool unfinished() const noexcept {
        return session_.unfinished() || transport_.owes_acknowledgement();
    }
    [[nodiscard]] base::Nanoseconds next_deadline() const noexcept {
        return transport_.next_deadline();
    }
    /// The same as of the last look, for nothing.
    [[nodiscard]] base::Nanoseconds due() const noexcept { return due_; }
    [[nodiscard]] const std::vector<LinkEnd>& links() const noexcept { return links_; }
    [[nodiscard]] links::PolicyKind policy() const noexcept { return transport_.policy(); }
    /// Links of other interfaces than these carry nothing now. In order.
    void interfaces_are(std::span<const std::uint32_t> running);
    void set_policy(links::PolicyKind policy) { transport_.set_policy(policy); }
    [[nodiscard]] links::Transport& transport() noexcept { return transport_; }

  private:
    [[nodiscard]] SendOutcome send(std::size_t link, std::span<const iovec> parts,
                                   std::uint32_t packet_bytes) override;
    [[nodiscard]] SendOutcome lend(std::size_t link, std::span<const iovec> parts, std::size_t lent,
                                   std::uint32_t packet_bytes) override;
    [[nodiscard]] std::uint32_t packet_bytes(std::size_t link) override;
    void link_changed(std::size_t link, links::LinkState from, links::LinkState to) override;
    using PacketTaker::take;
    bool take(std::span<const std::byte> packets, std::size_t packet_bytes) override;
    [[nodiscard]] bool take_unmeasured(std::span<const std::byte> packets) override;
    void count_packets(std::size_t bytes, std::size_t packet_bytes) noexcept;
    bool receive_from(std::size_t link);
    bool receive_all();
    void log_links() const;
    void show_link(std::size_t link) const;
    void hide_links();
    base::Nanoseconds now();
    [[nodiscard]] bool in_stream() const noexcept;
    [[nodiscard]] bool waits_for_company();
    [[nodiscard]] bool is_being_fed();
    [[nodiscard]] bool gathers_unclocked() noexcept;
    void transmit();

    std::vector<LinkEnd> links_;
    /// Where tools see the links, as long as the VI has them; null: no slot was left.
    std::vector<base::LinkRecord*> records_;
    Session session_;
    links::Transport transport_;
    base::QuickClock clock_;
    base::Nanoseconds now_;
    bool now_is_fresh_ = false;        ///< the clock was read in this call
    std::uint32_t packets_taken_ = 0;  ///< from the last batch
    Respite respite_;
    base::Nanoseconds cork_;  ///< how long after a send further ones are gathered
    base::Nanoseconds last_sent_ = 0;
    base::Nanoseconds look_again_ = 0;  ///< at the sockets, though the program posts on; 0: now
    std::uint32_t quick_polls_ = 0;     ///< that need not look
    std::uint32_t unclocked_ = 0;       ///< posts and looks, of which each fourth asks for the time
    bool polled_ = true;
    base::Nanoseconds next_look_ = 0;  ///< at what is due
    base::Nanoseconds due_ = 0;
    base::Nanoseconds next_show_ = 0;  ///< of the links to tools
    std::size_t receiving_ = 0;        ///< link
    std::size_t hot_ = 0;              ///< link by which something came last
    std::uint32_t polls_ = 0;
};

}  // namespace via::na::net
