// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/conversation.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"

namespace via::na::net {
namespace {

/// Batches that one poll takes from a link, so that the program gets its turn.
constexpr int most_batches = 8;
/// A batch of so many packets is part of a stream: more will be there.
constexpr std::uint32_t long_batch = 8;
/// What is due is looked for this seldom while nothing else happens.
constexpr std::uint32_t look_polls = 32;
/// A link on which nothing comes is looked at this seldom: a look is a system call.
constexpr std::uint32_t idle_link_polls = 16;
constexpr base::Nanoseconds look_interval = 100'000;
/// Tools that watch the links see them no older than this.
constexpr base::Nanoseconds show_interval = 50'000'000;
/// A program that polls more often than this after a post does not post the next one.
constexpr std::uint32_t most_quick_polls = 3;
/// Of so many posts and looks while messages gather one asks for the time.
constexpr std::uint32_t clocked_each = 4;
/// So much waits before a burst goes out though nobody polls.
constexpr std::uint64_t corked_bytes = 60'000;

}  // namespace

Conversation::Conversation(QueuePair& queues, ka::RmmtView rmmt, const links::TransportTerms& terms,
                           std::vector<LinkEnd> links, base::Nanoseconds cork,
                           base::Nanoseconds now)
    : links_(std::move(links)),
      session_(queues, rmmt, {terms.remote_token, terms.local_token}),
      transport_(session_, *this, terms, now),
      now_(now),
      cork_(cork) {
    for (const LinkEnd& end : links_) {
        links::LinkLimits limits;
        limits.packet_bytes = end.packet_bytes;
        limits.train_bytes = end.short_only ? end.packet_bytes : end.port->max_train_bytes();
        limits.window_bytes = end.window_bytes;
        limits.short_only = end.short_only;
        limits.lends = end.port->lends();
        transport_.add_link(limits, now);
    }
    records_.reserve(links_.size());
    for (const LinkEnd& end : links_)
        records_.push_back(base::Counters::get().take_link(end.description, queues.counters));
}

Conversation::~Conversation() {
    hide_links();
}

void Conversation::show_link(std::size_t link) const {
    base::LinkRecord* const record = records_[link];
    if (record == nullptr) return;
    const links::Link& shown = transport_.link(link);
    const links::LinkCounters& counted = shown.counters();
    record->state.set(static_cast<std::uint64_t>(shown.state()));
    record->sent_packets.set(counted.sent_packets);
    record->sent_bytes.set(counted.sent_bytes);
    record->received_packets.set(counted.received_packets);
    record->received_bytes.set(counted.received_bytes);
    record->lost_packets.set(counted.lost_packets - counted.spurious_losses);
    record->duplicate_packets.set(counted.duplicate_packets);
    record->timeouts.set(counted.timeouts);
    record->round_trip_ns.set(static_cast<std::uint64_t>(shown.smoothed_rtt()));
    record->least_round_trip_ns.set(static_cast<std::uint64_t>(shown.least_rtt()));
    record->window_bytes.set(shown.window());
    record->bytes_in_flight.set(shown.in_flight());
    record->bytes_per_second.set(static_cast<std::uint64_t>(shown.rate()));
    record->changes.set(counted.changes);
}

void Conversation::hide_links() {
    for (base::LinkRecord* record : records_)
        if (record != nullptr) base::Counters::get().give_back(*record);
    records_.clear();
}

SendOutcome Conversation::send(std::size_t link, std::span<const iovec> parts,
                               std::uint32_t packet_bytes) {
    return links_[link].port->send(parts, packet_bytes);
}

SendOutcome Conversation::lend(std::size_t link, std::span<const iovec> parts, std::size_t lent,
                               std::uint32_t packet_bytes) {
    return links_[link].port->lend(parts, lent, packet_bytes);
}

std::uint32_t Conversation::packet_bytes(std::size_t link) {
    return links_[link].port->max_packet_bytes();
}

void Conversation::link_changed(std::size_t link, links::LinkState from, links::LinkState to) {
    const bool trouble = to == links::LinkState::Suspect || to == links::LinkState::Down;
    base::log(trouble ? base::LogLevel::Warning : base::LogLevel::Info,
              "link " + links_[link].description + ": " + links::name_of(from) + " -> " +
                  links::name_of(to));
    if (link >= records_.size() || records_[link] == nullptr) return;
    base::Counters::get().record_change(*records_[link], static_cast<std::uint64_t>(from),
                                        static_cast<std::uint64_t>(to));
    show_link(link);
}

/// The clock, read once in a call and only if somebody wants to know.
base::Nanoseconds Conversation::now() {
    if (!now_is_fresh_) {
        now_ = clock_.now();
        now_is_fresh_ = true;
    }
    return now_;
}

void Conversation::count_packets(std::size_t bytes, std::size_t packet_bytes) noexcept {
    // A lone one does not wait for a division.
    packets_taken_ += bytes <= packet_bytes
                          ? 1
                          : static_cast<std::uint32_t>((bytes + packet_bytes - 1) / packet_bytes);
}

bool Conversation::take(std::span<const std::byte> packets, std::size_t packet_bytes) {
    count_packets(packets.size(), packet_bytes);
    return transport_.receive(receiving_, packets, packet_bytes, now());
}

bool Conversation::take_unmeasured(std::span<const std::byte> packets) {
    count_packets(packets.size(), links_[receiving_].packet_bytes);
    return transport_.receive_unmeasured(receiving_, packets, now());
}

void Conversation::log_links() const {
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const links::Link& link = transport_.link(i);
        const links::LinkCounters& counted = link.counters();
        const auto number = [](std::uint64_t value) { return std::to_string(value); };
        base::log(
            base::LogLevel::Debug,
            "link " + links_[i].description + ": " + links::name_of(link.state()) + ", sent " +
                number(counted.sent_packets) + " packets, " + number(counted.sent_long_packets) +
                " of them long, " + number(counted.sent_bytes) + " bytes; received " +
                number(counted.received_packets) + ", " + number(counted.received_bytes) +
                "; lost " + number(counted.lost_packets) + " (" + number(counted.spurious_losses) +
                " came after all), timeouts " + number(counted.timeouts) + ", kernel full " +
                number(counted.stalls) + ", window " + number(link.window()) + ", packets of " +
                number(link.limits().packet_bytes) + ", round trip " +
                number(static_cast<std::uint64_t>(link.smoothed_rtt())) + " ns, rate " +
                number(static_cast<std::uint64_t>(link.rate() / 1e6)) + " MB/s");
    }
}

void Conversation::interfaces_are(std::span<const std::uint32_t> running) {
    now_is_fresh_ = false;
    for (std::size_t i = 0; i < links_.size(); ++i) {
        if (std::binary_search(running.begin(), running.end(), links_[i].interface)) continue;
        if (transport_.link(i).state() == links::LinkState::Up)
            base::log(base::LogLevel::Info,
                      "link " + links_[i].description + ": its interface has no carrier");
        transport_.refused(i, SendOutcome::LinkDown, now());
    }
}

bool Conversation::receive_from(std::size_t link) {
    receiving_ = link;
    bool any = false;
    for (int i = 0; i < most_batches; ++i) {
        packets_taken_ = 0;
        if (!links_[link].port->receive(*this)) break;
        any = true;
        // A lone packet has nothing behind it, most likely, and the program waits for it. Who sends
        // a stream has acknowledgements waiting behind it, and wants to know how far it has come.
        if (packets_taken_ < long_batch && session_.pending_bytes() < corked_bytes) break;
    }
    if (any) {
        hot_ = link;
        // A long batch was the last one taken: more are there, and acknowledgements say so.
        transport_.set_busy(packets_taken_ >= long_batch);
    }
    return any;
}

/// Whatever has come, by any link.
bool Conversation::receive_all() {
    bool any = false;
    for (std::size_t i = 0; i < links_.size(); ++i) {
        receiving_ = i;
        for (int batch = 0; batch < most_batches && links_[i].port->receive(*this); ++batch)
            any = true;
    }
    return any;
}

/// Several messages are on their way, and there may be more right behind them.
bool Conversation::in_stream() const noexcept {
    return polled_ && (session_.operations() > 1 || transport_.awaits_answers());
}

/// Right behind another send, and before that one is answered, a send waits for more of its kind:
/// they leave in one train. What finds the way empty does not wait.
bool Conversation::waits_for_company() {
    return session_.pending_bytes() < corked_bytes && in_stream() && now() - last_sent_ < cork_;
}

/// While messages gather, every fourth post or look asks for the time: reading the clock is a good
/// part of what either does.
bool Conversation::gathers_unclocked() noexcept {
    return session_.pending_bytes() < corked_bytes && in_stream() &&
           ++unclocked_ % clocked_each != 0;
}

/// A program that posts one message after the other looks for completions in between. Each such
/// look at the sockets would cost as much as posting a few more.
bool Conversation::is_being_fed() {
    if (quick_polls_ == 0 || session_.pending_bytes() == 0 || !polled_ || look_again_ == 0)
        return false;
    --quick_polls_;
    return gathers_unclocked() || (now() < look_again_ && waits_for_company());
}

void Conversation::transmit() {
    // A message alone goes to its end; in a stream the rest goes with the next one.
    const bool gathers = cork_ != 0 && polled_ && session_.operations() > 1;
    if (!transport_.transmit(now(), gathers ? corked_bytes : 1)) return;
    // A train takes its time.
    now_ = last_sent_ = clock_.now();
}

void Conversation::post() {
    now_is_fresh_ = false;
    quick_polls_ = most_quick_polls;
    if (session_.has_posts()) session_.take_sends();
    const bool joins_others = session_.unsent_operations() > 1;
    if (transport_.has_put_aside()) {
        // The answer to what came last; whatever else it is, it is no stream.
        if (session_.operations() <= 2) transmit();
        transport_.settle();
        if (session_.pending_bytes() == 0) return;
    }
    if (joins_others && gathers_unclocked()) return;
    if (!waits_for_company()) transmit();
}

bool Conversation::poll(bool polled) {
    now_is_fresh_ = false;
    polled_ = polled;
    ++polls_;
    if (is_being_fed()) return session_.take_news();
    transport_.settle();
    transport_.put_aside(polled);
    bool any = receive_from(hot_);
    if (links_.size() > 1 && polls_ % idle_link_polls == 0) {
        const std::size_t hot = hot_;
        for (std::size_t i = 0; i < links_.size(); ++i)
            if (i != hot && receive_from(i)) any = true;
    }
    if (session_.pending_bytes() != 0) look_again_ = now() + cork_;
    if (!any) {
        // Nothing came, nothing waits: the commonest poll of all does nothing more.
        if (!transport_.owes_acknowledgement() && session_.pending_bytes() == 0 &&
            !session_.has_posts() && polls_ % look_polls != 0)
            return session_.take_news();
        transport_.received_all(now());
    }
    if (!polled_) transport_.owe_nothing();
    if (session_.has_posts()) session_.take_sends();
    if (session_.pending_bytes() != 0) transport_.settle();
    if (now() >= next_look_) {
        next_look_ = now_ + look_interval;
        // A process that stood still finds the answers in its sockets.
        if (transport_.concludes_at() <= now_) any = receive_all() || any;
        transport_.on_time(now_);
        if (transport_.lost()) session_.peer_lost();
        due_ = transport_.next_deadline();
        if (now_ >= next_show_) {
            next_show_ = now_ + show_interval;
            for (std::size_t i = 0; i < records_.size(); ++i) {
                show_link(i);
                links_[i].port->expect_rate(transport_.link(i).rate());
            }
        }
    }
    // Also with nothing of the session's to send: links are probed, and pings answered.
    if (transport_.acknowledgement_due() || !waits_for_company()) transmit();
    return session_.take_news() || any;
}

base::Nanoseconds Conversation::respite() {
    const std::uint64_t missing = session_.missing_of_stream();
    if (missing == 0) return 0;
    now_is_fresh_ = false;
    const base::Nanoseconds span = respite_.span(session_.delivered(), missing, now());
    if (span != 0 && transport_.owes_acknowledgement()) {
        transport_.owe_nothing();
        transmit();
    }
    return span;
}

void Conversation::disconnect() {
    now_is_fresh_ = false;
    (void)now();
    transport_.settle();
    if (base::log_level() >= base::LogLevel::Debug) log_links();
    const wire::CloseFrame reason = session_.reason();
    session_.detach();
    hide_links();
    transport_.close(reason, now_);
}

}  // namespace via::na::net
