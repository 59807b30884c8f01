// SPDX-License-Identifier: BSD-3-Clause
// Everything about the packets of one connection: numbers, acknowledgements, losses, which link
// takes the next train, which links live. What the packets carry is the client's: it fills them
// with parts of its stream of operations and is told which parts were lost.
//
// Pure: packets and the time go in; packets go out through `Output`, which may do anything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "links/link.hpp"
#include "links/lone_packet.hpp"
#include "links/packet_joiner.hpp"
#include "links/policy.hpp"
#include "links/send_outcome.hpp"
#include "links/span.hpp"
#include "links/train.hpp"
#include "wire/packet.hpp"
#include "wire/packet_guard.hpp"

namespace via::links {

/// What the stream of operations does for the transport.
class StreamClient {
  public:
    virtual ~StreamClient() = default;
    /// About how many bytes wait to be sent. 0: none.
    [[nodiscard]] std::uint64_t pending_bytes() const noexcept { return pending_bytes_; }
    /// Some of them were lost, and others may wait for them.
    [[nodiscard]] bool is_urgent() const noexcept { return urgent_; }
    /// Fills the train's open packet with frames, and further ones as long as there is room; says
    /// for each packet which part of the stream it carries.
    virtual void fill(Train& train, std::vector<Span>& spans) = 0;
    /// All that waits is one message, whole, for which there is room: it goes into a packet of its
    /// own. False: it is not, and nothing has happened.
    [[nodiscard]] virtual bool fill_alone(LonePacket& packet, Span& span) = 0;
    /// The kernel has taken them.
    virtual void sent(std::span<const Span> spans) = 0;
    /// It has to be sent again.
    virtual void lost(const Span& span) = 0;
    /// It has not been sent at all.
    virtual void unsent(const Span& span) = 0;
    /// How many of the peer's operations have been delivered here, in order.
    [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }
    virtual void peer_delivered(std::uint32_t count) = 0;
    /// Where that payload may be written before it is known to be genuine. Only bytes that have not
    /// come yet, of an operation that is: so whatever else is written there is written over. Null:
    /// nowhere.
    [[nodiscard]] virtual std::byte* early_place(const wire::DataFrame& frame) = 0;
    /// False: it can not be taken now; the packet counts as lost. The payload may lie in its early
    /// place.
    [[nodiscard]] virtual bool take(const wire::DataFrame& frame,
                                    std::span<const std::byte> payload) = 0;
    /// A piece of an operation of which others have come before; else like take().
    [[nodiscard]] virtual bool take_continued(const wire::Continuation& piece,
                                              std::span<const std::byte> payload) = 0;
    /// Of some operation a part has come.
    [[nodiscard]] virtual bool is_midway() const noexcept = 0;
    virtual void peer_closes(const wire::CloseFrame& frame) = 0;
    virtual void violation(const char* what) = 0;

  protected:
    std::uint64_t pending_bytes_ = 0;
    bool urgent_ = false;
    std::uint64_t delivered_ = 0;
};

class Output {
  public:
    virtual ~Output() = default;
    /// What the parts hold, in datagrams of that length; only the last may be shorter.
    [[nodiscard]] virtual SendOutcome send(std::size_t link, std::span<const iovec> parts,
                                           std::uint32_t datagram_bytes) = 0;
    /// The same; what the parts from the `lent`-th on hold stays as it is until the peer has
    /// acknowledged it.
    [[nodiscard]] virtual SendOutcome lend(std::size_t link, std::span<const iovec> parts,
                                           std::size_t /*lent*/, std::uint32_t datagram_bytes) {
        return send(link, parts, datagram_bytes);
    }
    /// The longest datagram that the link carries, after TooLong.
    [[nodiscard]] virtual std::uint32_t packet_bytes(std::size_t link) = 0;
    virtual void link_changed(std::size_t link, LinkState from, LinkState to) = 0;
};

struct TransportTerms {
    std::uint32_t local_token = 0;   ///< in packets to us
    std::uint32_t remote_token = 0;  ///< in packets to the peer
    wire::SessionKey key{};
    bool requester = false;
    bool sealed = false;
    std::uint64_t connection = 0;
    PolicyKind policy = PolicyKind::Adaptive;
    /// All packets in their order on one link, as unreliable VIs want it.
    bool one_link = false;
    Nanoseconds lost_after = 2'000'000'000;
    /// Below this a link that passes nothing can not be told from one that passes only short
    /// packets.
    std::uint32_t least_packet_bytes = 1200;
};

class Transport {
  public:
    Transport(StreamClient& client, Output& output, const TransportTerms& terms, Nanoseconds now);

    void add_link(const LinkLimits& limits, Nanoseconds now);
    [[nodiscard]] std::size_t links() const noexcept { return links_.size(); }
    [[nodiscard]] const Link& link(std::size_t index) const noexcept { return links_[index]; }
    void set_policy(PolicyKind policy);
    [[nodiscard]] PolicyKind policy() const noexcept { return terms_.policy; }

    /// A datagram has come by a link.
    void receive(std::size_t link, std::span<const std::byte> datagram, Nanoseconds now) {
        receive(link, datagram, datagram.size(), now);
    }
    /// Several, one behind the other, each but the last of that length. True: they were one packet,
    /// and the length was not needed.
    bool receive(std::size_t link, std::span<const std::byte> datagrams, std::size_t datagram_bytes,
                 Nanoseconds now);
    /// The same, but nobody has asked the kernel for the length, which costs time.
    [[nodiscard]] bool receive_unmeasured(std::size_t link, std::span<const std::byte> datagrams,
                                          Nanoseconds now);
    /// No further packet is there at the moment. A lone one is acknowledged now, and those of a
    /// stream together, a few microseconds later.
    void received_all(Nanoseconds now) noexcept;
    /// Nobody will call again soon: what is owed goes with the next transmit.
    void owe_nothing() noexcept { soon_ = owed_packets_ != 0; }
    /// An acknowledgement that came with data is put aside until settle(), so that the data is
    /// with the program before the books are kept. Nothing is put aside unless it is allowed.
    void put_aside(bool allowed) noexcept { may_put_aside_ = allowed; }
    [[nodiscard]] bool has_put_aside() const noexcept { return put_aside_; }
    void settle() {
        if (!put_aside_) return;
        put_aside_ = false;
        take_acknowledgement(heard_, heard_at_);
    }
    /// More packets wait behind those taken: acknowledgements say so (MNC's receiver state).
    void set_busy(bool busy) noexcept { busy_ = busy; }
    /// Sends what can be sent. True if anything was. A second train and later ones carry no less
    /// than `worth` bytes.
    bool transmit(Nanoseconds now, std::uint64_t worth = 1);
    /// What was due at `now`.
    void on_time(Nanoseconds now);
    /// From when on on_time() concludes something from silence: until then all that has come
    /// should have been received.
    [[nodiscard]] Nanoseconds concludes_at() const noexcept;
    /// When on_time() or transmit() should be called although nothing has come.
    [[nodiscard]] Nanoseconds next_deadline() const noexcept;
    /// Acknowledgements that nobody will send unless transmit() is called again.
    [[nodiscard]] bool owes_acknowledgement() const noexcept { return owed_packets_ != 0; }
    /// They are to be sent now.
    [[nodiscard]] bool acknowledgement_due() const noexcept { return soon_; }
    /// Something was sent that the peer has not answered.
    [[nodiscard]] bool awaits_answers() const noexcept;

    /// Says goodbye on all links, now and again until the peer has heard it or a second is over.
    void close(const wire::CloseFrame& frame, Nanoseconds now);
    /// Nothing is left to be done for it.
    [[nodiscard]] bool closed() const noexcept { return closed_; }
    /// The peer does not answer any more on any link.
    [[nodiscard]] bool lost() const noexcept { return lost_; }
    [[nodiscard]] Nanoseconds silent_since() const noexcept;
    /// The kernel says about a link's packets what a send would have said.
    void refused(std::size_t link, SendOutcome outcome, Nanoseconds now);

    [[nodiscard]] std::uint64_t damaged_packets() const noexcept { return damaged_packets_; }

  private:
    struct Owed {  ///< acknowledgements of one link
        std::uint32_t packets = 0;
        std::uint32_t bytes = 0;
    };

    /// When what is owed is sent at the latest, once nothing more is there to be read.
    [[nodiscard]] Nanoseconds acknowledge_at() const noexcept;
    [[nodiscard]] wire::PacketHeader header_for(const Link& link) const noexcept;
    void begin_train(const Link& link, std::uint32_t packet_bytes, std::uint32_t limit);
    /// `Packet`: a train, of which one is open, or the front of a lone one.
    template <class Packet>
    [[gnu::always_inline]] void append_acknowledgements(Packet& packet, Nanoseconds now);
    [[nodiscard]] bool short_choice_holds_for(std::uint64_t pending,
                                              Nanoseconds now) const noexcept;
    [[nodiscard]] std::optional<Choice> choose(std::uint64_t pending, Nanoseconds now);
    [[nodiscard]] std::size_t answering_link() noexcept;
    bool send_train(const Choice& choice, Nanoseconds now);
    /// The common case: one message waits, which goes into one packet.
    [[nodiscard]] std::optional<bool> send_alone(std::size_t link, std::uint64_t pending,
                                                 Nanoseconds now);
    /// The kernel has taken none of them.
    void not_sent(std::size_t link, std::span<const Span> spans, bool acknowledging,
                  SendOutcome outcome, Nanoseconds now);
    /// False: it could not leave this host, and says nothing about the link.
    bool send_control(std::size_t index, Nanoseconds now, wire::FrameType type, std::uint64_t stamp,
                      std::uint32_t padded_to);
    void send_close(Nanoseconds now);
    enum class Contents : std::uint8_t { Refused, Words, Data };
    Contents violation(const char* what);
    /// Takes what the datagrams begin with. How many bytes of them that was.
    [[nodiscard]] std::size_t take_first(std::size_t link, std::span<const std::byte> datagrams,
                                         std::size_t datagram_bytes, Nanoseconds now);
    /// False: it is not genuine.
    [[nodiscard]] bool take_packet(std::size_t link, std::span<const std::byte> packet,
                                   Nanoseconds now);
    /// The same without their length. `guesses`: how many more ends of packets may be tried.
    [[gnu::always_inline, nodiscard]] std::size_t take_first_unmeasured(
        std::size_t link, std::span<const std::byte> datagrams, std::uint32_t& guesses,
        Nanoseconds now);
    /// Where, behind the first byte, something lies that looks like the beginning of a packet.
    [[nodiscard]] std::size_t next_beginning(std::span<const std::byte> datagrams,
                                             std::size_t from) const noexcept;
    /// Payload of a packet, and where it goes while the packet is checked.
    struct EarlyPlace {
        std::span<const std::byte> payload;
        std::byte* place = nullptr;
    };
    [[nodiscard]] EarlyPlace find_early_place(const wire::PacketHeader& header,
                                              std::span<const std::byte> packet);
    [[gnu::always_inline, nodiscard]] Contents take_frames(std::size_t link,
                                                           std::span<const std::byte> body,
                                                           const EarlyPlace& early,
                                                           Nanoseconds now);
    [[nodiscard]] Contents take_continuation(const wire::PacketHeader& header,
                                             std::span<const std::byte> body);
    void take_acknowledgement(const wire::AcknowledgementFrame& frame, Nanoseconds now);
    void take_pong(std::size_t index, std::uint64_t stamp, Nanoseconds now);
    void ping(std::size_t index, Nanoseconds now);
    void probe_timed_out(std::size_t index, Nanoseconds now);
    bool replaced_by_one_heard(std::size_t index, Nanoseconds since, Nanoseconds now);
    void pings_unanswered(std::size_t index, Nanoseconds now);
    void works(std::size_t index, Nanoseconds now);
    void fall(std::size_t index, LinkState state, Nanoseconds now);
    void ask_all() noexcept;
    void enter(std::size_t index, LinkState state, Nanoseconds now);
    [[nodiscard]] bool another_up(std::size_t index) const noexcept;
    /// Another link can take over, and by some other one the peer was heard since.
    [[nodiscard]] bool another_shows_life(std::size_t index, Nanoseconds since,
                                          Nanoseconds now) const noexcept;
    [[nodiscard]] bool any_up() const noexcept;
    void view(Nanoseconds now, std::uint64_t pending);
    [[nodiscard]] std::uint32_t room_for(const Link& link, std::uint64_t pending,
                                         Nanoseconds now) const;

    StreamClient& client_;
    Output& output_;
    TransportTerms terms_;
    wire::PacketGuard guard_;
    std::unique_ptr<Policy> policy_;
    std::vector<Link> links_;
    std::vector<PacketJoiner> joiners_;
    std::vector<Owed> owed_;
    std::uint32_t owed_packets_ = 0;
    std::uint64_t told_delivered_ = 0;  ///< what the last acknowledgement said
    std::size_t last_arrival_ = 0;      ///< link
    std::size_t last_answer_ = 0;       ///< link, of those that take turns
    bool soon_ = false;                 ///< owed acknowledgements go with the next transmit
    Nanoseconds owed_since_ = 0;
    Nanoseconds last_data_ = 0;  ///< when data came
    bool lone_ = false;          ///< nothing came for a while before what is owed for
    bool busy_ = false;
    bool may_put_aside_ = false;
    bool put_aside_ = false;  ///< heard_ waits
    wire::AcknowledgementFrame heard_;
    Nanoseconds heard_at_ = 0;
    std::size_t sticky_ = 0;        ///< with one_link
    std::size_t short_choice_ = 0;  ///< the link for short messages, chosen last
    Nanoseconds short_choice_until_ = 0;
    std::vector<LinkView> views_;
    std::vector<Span> spans_;
    Train train_;
    std::vector<std::byte> opened_;
    bool copies_early_ = wire::crc32c_copies();
    std::uint64_t damaged_packets_ = 0;

    Nanoseconds last_time_;
    Nanoseconds silence_counts_from_ = 0;  ///< this process stood still before
    Nanoseconds last_transmit_ = 0;
    bool lost_ = false;
    bool closing_ = false;
    bool closed_ = false;
    wire::CloseFrame close_frame_;
    Nanoseconds close_until_ = 0;
    Nanoseconds next_close_ = never;
    Nanoseconds close_interval_ = 2'000'000;
};

}  // namespace via::links
