// SPDX-License-Identifier: BSD-3-Clause
// The NIC-agent interface: everything above is blind to which NIC it runs on. A NIC is a folder
// under na/ and one line in ua/devices.cpp.
//
// Division of work. The user agent owns VI states, reliability policy, descriptors and completion;
// it posts PD chains into work queues and rings the endpoint. The NIC agent moves data: it takes
// chains from the queues, marks entries done and reports events. An endpoint is not thread-safe:
// the user agent calls it with the VI's lock held, except where noted.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/counters.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "na/doorbell.hpp"
#include "na/place_ahead.hpp"
#include "na/work_queue.hpp"

namespace via::na {

inline constexpr std::uint32_t unreliable = 0x1;
inline constexpr std::uint32_t reliable_delivery = 0x2;
inline constexpr std::uint32_t reliable_reception = 0x4;

/// A NIC's address as programs see it: how long it is depends on the device.
class NicAddress {
  public:
    constexpr NicAddress() = default;
    template <std::size_t count>
    constexpr NicAddress(const std::array<std::uint8_t, count>& bytes) noexcept  // NOLINT: as it is
        : length_(count) {
        static_assert(count <= ka::max_host_address_bytes);
        std::copy_n(bytes.begin(), count, bytes_.begin());
    }
    constexpr explicit NicAddress(std::span<const std::uint8_t> bytes) noexcept
        : length_(std::min(bytes.size(), ka::max_host_address_bytes)) {
        std::copy_n(bytes.begin(), length_, bytes_.begin());
    }
    constexpr NicAddress(std::initializer_list<std::uint8_t> bytes) noexcept
        : NicAddress(std::span<const std::uint8_t>(bytes.begin(), bytes.size())) {}
    [[nodiscard]] std::size_t size() const noexcept { return length_; }
    [[nodiscard]] std::uint8_t operator[](std::size_t i) const noexcept { return bytes_[i]; }
    [[nodiscard]] const std::uint8_t* data() const noexcept { return bytes_.data(); }
    [[nodiscard]] const std::uint8_t* begin() const noexcept { return bytes_.data(); }
    [[nodiscard]] const std::uint8_t* end() const noexcept { return bytes_.data() + length_; }
    friend bool operator==(const NicAddress&, const NicAddress&) = default;

  private:
    std::array<std::uint8_t, ka::max_host_address_bytes> bytes_{};
    std::size_t length_ = 0;
};

struct NicAttributes {
    std::string name;
    std::uint32_t hardware_version = 0;
    std::uint32_t provider_version = 0;
    NicAddress address;
    std::uint64_t max_transfer_bytes = 0;
    std::uint64_t native_mtu = 0;
    std::uint64_t max_vis = 0;
    std::uint32_t max_segments = 0;
    std::uint32_t reliability_levels = 0;  ///< mask
    std::uint32_t rdma_read_levels = 0;    ///< mask: levels on which RDMA read works
    /// Time passes there when programs poll, so a wait must poll and never sleep.
    bool simulated = false;
};

/// What happened to an endpoint outside its work entries. Reported once, in this order of bits.
enum class EndpointEvent : std::uint32_t {
    None = 0,
    ReceiveQueueEmpty = 1,   ///< a message found no receive posted and was dropped
    RdmaWriteRefused = 2,    ///< the peer's RDMA write failed the check at this target
    RdmaReadRefused = 4,     ///< the peer's RDMA read failed it
    PeerDisconnected = 8,    ///< the peer disconnected or broke the connection
    PeerDied = 16,           ///< its process is gone
    ProtocolViolation = 32,  ///< the peer wrote nonsense into the channel
    OutOfMemory = 64,        ///< this end has no memory to go on
};

/// A received message looked at in place: in the channel's memory, or in a copy that lives as long
/// as the call. The peer can write into the channel at any time: whoever uses the data copies first
/// and checks then.
struct FrameView {
    const std::byte* data = nullptr;
    std::uint32_t length = 0;
    bool has_immediate = false;
    std::uint32_t immediate = 0;
    /// Of a HeadedMessage: its head, in words of this process; `immediate` is its note.
    const std::uint64_t* head = nullptr;
    std::uint32_t head_bytes = 0;
};

/// A message that begins with one or two words which the sink shall have before all else: they and
/// the note travel in the first cache line, and the payload is not moved by them.
struct HeadedMessage {
    std::uint32_t note = 0;
    std::uint32_t head_bytes = 8;  ///< or 16
    std::uint64_t head[2] = {};
    const void* payload = nullptr;
    std::uint32_t payload_bytes = 0;
};

/// A layer above the VI that takes messages where they lie instead of posting receives for them.
/// Only messages that lie in one piece are shown; all others go through posted receives as ever.
class FrameSink {
  public:
    virtual ~FrameSink() = default;
    /// A message, in the order of arrival. Called by a poll of the VI, of its completion queue or
    /// of its state that the layer itself makes, with the VI's lock held: it may copy and note, but
    /// calls nothing of this VI. True: taken. False: it stays, the poll ends, and the next poll
    /// shows it again.
    virtual bool frame(const FrameView& view) = 0;
    /// The same for the commonest of them: a head of one word, and a payload of few bytes.
    virtual bool short_frame(std::uint32_t note, std::uint64_t head, const std::byte* payload,
                             std::uint32_t bytes) {
        FrameView view;
        view.data = payload;
        view.length = bytes;
        view.immediate = note;
        view.head = &head;
        view.head_bytes = sizeof head;
        return frame(view);
    }
    /// On the service thread, with no lock held: there is news on the VI and the program does not
    /// poll. The layer polls its VIs itself, in its own order of locks, as the service thread's
    /// (PolledBy::Service) and until nothing moves: what came before the peer knew that it must
    /// ring would be left otherwise. True: call again soon.
    ///
    /// Closing a VI waits for the end of this call. So it waits for no lock that is held while VIs
    /// are closed: it tries to get it, and returns true if another has it.
    virtual bool serve() = 0;
    /// Whether the layer has something to send that waits for room. Nobody tells when there is
    /// some, so serve() is due as if there were news. On any thread, with the VI's lock held.
    [[nodiscard]] virtual bool unfinished() const noexcept { return false; }
    /// The VI went to the Error state. With the VI's lock held, on any thread: it only notes it.
    virtual void broken() noexcept = 0;
};

/// Everything of one VI that user agent and NIC agent share.
struct QueuePair {
    QueuePair(std::uint32_t small_ring, std::uint32_t low_water, std::uint32_t max_entries)
        : send(small_ring, low_water, max_entries), receive(small_ring, low_water, max_entries) {}
    WorkQueue send;
    WorkQueue receive;
    std::uint32_t events = 0;  ///< EndpointEvent bits not yet taken by the user agent
    ka::EndpointAttributes local;
    ka::EndpointAttributes remote;  ///< valid while connected
    base::ViCounters* counters = nullptr;
    /// The NIC agent's hint: the peer was last seen on this very core.
    std::atomic<bool> peer_on_core{false};
    /// The NIC agent's hint: the peer is on this core, or nothing has come for long, so a poll that
    /// finds nothing should give the core away.
    std::atomic<bool> shares_core{false};
    /// A poll is a system call: a breath between two of them would only come late.
    std::atomic<bool> polls_kernel{false};
    /// The NIC agent's hint, while it is connected: the next message begins there.
    const PlaceAhead* next_frame = nullptr;
    /// The NIC agent's wish: to be told of receives when they are posted, because it does not look
    /// into the queue by itself.
    bool rings_receives = false;
    /// The same for sends of one segment: to be given them past the PD ring, out of which it would
    /// take them at once.
    bool takes_sends = false;
    /// Who takes messages in place, if the NIC agent can show them. Set before the endpoint is
    /// made.
    FrameSink* sink = nullptr;

    void report(EndpointEvent event) noexcept { events |= static_cast<std::uint32_t>(event); }
    [[nodiscard]] bool reliable() const noexcept { return local.reliability != unreliable; }
    [[nodiscard]] bool acknowledged() const noexcept {
        return local.reliability == reliable_reception;
    }
};

/// Called by poll groups, sweeps and the service thread: progress one VI, with its lock taken by
/// the callee.
class EndpointOwner {
  public:
    virtual ~EndpointOwner() = default;
    /// True while unfinished work remains that needs further calls. The service thread asks to
    /// nudge a peer that such work waits for.
    virtual bool progress(bool nudge_peer = false) = 0;
};

[[nodiscard]] inline base::Result<void> no_link_policy() {
    return base::Result<void>(base::Code::NotSupported,
                              "this device has no links to choose from; net0 and auto have");
}

class Endpoint {
  public:
    virtual ~Endpoint() = default;

    /// There are new chains in the send queue: perform what can be performed now.
    virtual void ring_send() = 0;
    /// There are new chains in the receive queue; only called if QueuePair::rings_receives.
    virtual void ring_receive() {}
    /// A send of one segment while nothing else waits: true if it is done already, with its data on
    /// the way. So a chain that would leave the PD ring the moment it entered it never enters it.
    /// `in_kmem`: the data lies in memory that the peer can map.
    [[nodiscard]] virtual bool send_at_once(const void* data, std::uint32_t bytes, bool in_kmem,
                                            bool has_immediate, std::uint32_t immediate) {
        (void)data, (void)bytes, (void)in_kmem, (void)has_immediate, (void)immediate;
        return false;
    }
    /// A send of one segment, which has become that entry of the send queue while no other waits
    /// to be started: true if it is under way like one that ring_send() found, but was never in the
    /// PD ring. False: nothing has happened. Only called if QueuePair::takes_sends.
    [[nodiscard]] virtual bool take_send(std::uint64_t entry, PhysicalDescriptor segment,
                                         bool has_immediate, std::uint32_t immediate) {
        (void)entry, (void)segment, (void)has_immediate, (void)immediate;
        return false;
    }
    /// One message made of the pieces, whose lengths add up to `bytes`: true if it is on its way
    /// and the memory free again, false if nothing has happened, because there is no room now or
    /// something waits before it. Nothing completes on the send queue.
    [[nodiscard]] virtual bool send_gathered(std::span<const iovec> pieces, std::uint32_t bytes) {
        (void)pieces, (void)bytes;
        return false;
    }
    /// The same for one with a head, to a peer that has a sink.
    [[gnu::noinline, nodiscard]] virtual bool send_headed(const HeadedMessage& message) {
        (void)message;
        return false;
    }
    /// The longest message that both take in the end; 0: none on this connection.
    [[nodiscard]] virtual std::uint32_t longest_gathered() const { return 0; }
    /// Does RDMA in both directions take one copy, of any memory of the peer?
    [[nodiscard]] virtual bool reaches_peer_memory() const { return false; }
    /// Does a poll show messages to QueuePair::sink?
    [[nodiscard]] virtual bool shows_frames() const { return false; }
    /// Would a poll find something? For an endpoint that shows frames; it may say yes too often.
    [[nodiscard]] virtual bool has_news() { return true; }
    /// Moves what can be moved in both directions, completes entries, reports events. Cheap when
    /// nothing is there. True if anything happened.
    virtual bool poll() = 0;
    /// From now on an arrival rings the process's doorbell (once) and wakes whom it says. The
    /// caller polls once more after it, and may then sleep. Wakes::Nobody: the program polls again.
    virtual void arm(Wakes wakes) = 0;
    /// For a caller that waits for a receive, and found nothing: so long it may rest, because the
    /// message is long and on its way, and nothing is lost if poll() is not called meanwhile.
    [[nodiscard]] virtual base::Nanoseconds respite() { return 0; }
    /// Sends (or reads) that are not done and that only further calls of poll() will finish.
    [[nodiscard]] virtual bool unfinished() const = 0;
    /// Tells a peer that makes no calls that something waits for it.
    virtual void nudge() = 0;
    /// Ends the connection and tells the peer. Entries are left to the user agent to flush.
    virtual void disconnect() = 0;
    [[nodiscard]] virtual std::int32_t peer_pid() const = 0;
    /// How the connection, and later ones of the VI, choose among several links. NotSupported: the
    /// device has none.
    [[nodiscard]] virtual base::Result<void> set_link_policy(std::string_view) {
        return no_link_policy();
    }

    /// What moves the data of the connection: itself, or one that was chosen for it.
    [[nodiscard]] virtual Endpoint& carrier() noexcept { return *this; }
    /// The name of the device that was chosen, for people; empty: none was.
    [[nodiscard]] virtual std::string_view chosen_device() const noexcept { return {}; }
};

/// The endpoints of one completion queue, polled together. poll() costs a look at the active
/// endpoints and not at the idle ones. Thread-safe.
class PollGroup {
  public:
    virtual ~PollGroup() = default;
    /// Looks for arrivals and calls progress() of their owners. True if any owner was called.
    virtual bool poll() = 0;
    /// As Endpoint::arm, for all endpoints of the group.
    virtual void arm(Wakes wakes) = 0;
    /// As QueuePair::shares_core, for the group.
    [[nodiscard]] virtual bool shares_core() const noexcept = 0;
};

/// The poll groups of the completion queues of a VI's two work queues: either may be null, and they
/// may be the same.
struct EndpointGroups {
    PollGroup* send = nullptr;
    PollGroup* receive = nullptr;
};

struct ConnectTerms {
    std::uint32_t vi = 0;
    ka::NetAddress local;
    ka::NetAddress remote;
};

class NicAgent {
  public:
    virtual ~NicAgent() = default;

    [[nodiscard]] virtual const NicAttributes& attributes() const = 0;
    /// May the calling thread open it? An error says why not.
    [[nodiscard]] virtual base::Result<void> may_open() { return {}; }
    /// Hosts that this NIC knows by name, before the name service is asked.
    [[nodiscard]] virtual std::optional<NicAddress> find_host(std::string_view) {
        return std::nullopt;
    }
    [[nodiscard]] virtual std::unique_ptr<PollGroup> create_poll_group() = 0;
    /// The owner outlives the endpoint.
    [[nodiscard]] virtual base::Result<std::unique_ptr<Endpoint>> create_endpoint(
        QueuePair& queues, EndpointOwner& owner, const EndpointGroups& groups) = 0;

    // Connection set-up. Called without the VI's lock while the VI is Connect Pending. On success
    // queues.remote is set and the endpoint is live. The caller has compared the attributes.
    /// `owner` names the open NIC, whose closing ends its waits.
    [[nodiscard]] virtual base::Result<ka::IncomingRequest> connect_wait(
        const ka::NetAddress& local, base::Deadline deadline, const void* owner) = 0;
    virtual void cancel_waits(const void* owner) = 0;
    [[nodiscard]] virtual base::Result<void> connect_accept(const ka::IncomingRequest& request,
                                                            Endpoint& endpoint,
                                                            const ConnectTerms& terms,
                                                            base::Deadline deadline) = 0;
    [[nodiscard]] virtual base::Result<void> connect_reject(std::uint64_t request) = 0;
    [[nodiscard]] virtual base::Result<void> connect_request(Endpoint& endpoint,
                                                             const ConnectTerms& terms,
                                                             base::Deadline deadline) = 0;
    [[nodiscard]] virtual base::Result<std::uint64_t> peer_request(Endpoint& endpoint,
                                                                   const ConnectTerms& terms,
                                                                   base::Deadline deadline) = 0;
    [[nodiscard]] virtual std::optional<base::Result<void>> peer_poll(Endpoint& endpoint,
                                                                      std::uint64_t request) = 0;
    [[nodiscard]] virtual base::Result<void> peer_wait(Endpoint& endpoint,
                                                       std::uint64_t request) = 0;
    virtual void peer_cancel(std::uint64_t request) = 0;

    /// The same as Endpoint::set_link_policy for all VIs and those to come, or, for people who
    /// look at counters, for the VI that counts on a slot. Any thread; endpoints follow when they
    /// are polled next.
    [[nodiscard]] virtual base::Result<void> set_link_policy(std::string_view, std::uint32_t slot) {
        (void)slot;
        return no_link_policy();
    }

    /// The kernel agent says that the other end of this connection has left. Service thread.
    virtual void connection_lost(std::uint64_t connection) = 0;
    /// Called by the service thread when the doorbell rang, or now and then: progresses endpoints
    /// with news. True while some endpoint has unfinished work that needs further calls.
    virtual bool service() = 0;
};

}  // namespace via::na
