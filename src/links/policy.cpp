// SPDX-License-Identifier: BSD-3-Clause
#include "links/policy.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace via::links {
namespace {

struct Named {
    PolicyKind kind;
    const char* name;
};
constexpr std::array names{Named{PolicyKind::Static, "static"}, Named{PolicyKind::OneWay, "oneway"},
                           Named{PolicyKind::Dynamic, "dynamic"},
                           Named{PolicyKind::Adaptive, "adaptive"}};

bool carries_bulk(const LinkView& link) noexcept {
    return link.up && !link.short_only;
}

/// The first link from `start` on, in a circle, that fits.
template <class Fits>
std::optional<std::size_t> in_turn(std::span<const LinkView> links, std::size_t start, Fits fits) {
    for (std::size_t i = 0; i < links.size(); ++i) {
        const LinkView& link = links[(start + i) % links.size()];
        if (fits(link)) return link.index;
    }
    return std::nullopt;
}

/// A process is bound to a link; nothing has to be chosen, but all may be bound to the same.
class StaticPolicy final : public Policy {
  public:
    explicit StaticPolicy(const PolicyTerms& terms) : connection_(terms.connection) {}
    std::optional<Choice> choose(std::span<const LinkView> links, std::uint64_t) override {
        if (links.empty()) return std::nullopt;
        const auto bound = in_turn(links, connection_ % links.size(), carries_bulk);
        if (!bound || links[*bound].room == 0) return std::nullopt;
        return Choice{*bound};
    }
    std::optional<std::size_t> choose_short(std::span<const LinkView> links) override {
        if (links.empty()) return std::nullopt;
        return in_turn(links, connection_ % links.size(), carries_bulk);
    }

  private:
    std::uint64_t connection_;
};

/// The requester sends on the links with even numbers and the other end on the odd ones, as long
/// as there are such.
class OneWayPolicy final : public Policy {
  public:
    explicit OneWayPolicy(const PolicyTerms& terms) : parity_(terms.requester ? 0 : 1) {}
    std::optional<Choice> choose(std::span<const LinkView> links, std::uint64_t) override {
        if (links.empty()) return std::nullopt;
        const auto mine = [&](const LinkView& link) {
            return carries_bulk(link) && link.index % 2 == parity_;
        };
        const bool any = in_turn(links, 0, mine).has_value();
        const auto chosen = in_turn(links, next_, [&](const LinkView& link) {
            return (any ? mine(link) : carries_bulk(link)) && link.room != 0;
        });
        if (!chosen) return std::nullopt;
        next_ = *chosen + 1;
        return Choice{*chosen};
    }

  private:
    std::size_t parity_;
    std::size_t next_ = 0;
};

/// The paper's: a link is busy if it is sending here or receiving there.
class DynamicPolicy final : public Policy {
  public:
    std::optional<Choice> choose(std::span<const LinkView> links, std::uint64_t) override {
        if (links.empty()) return std::nullopt;
        auto chosen = in_turn(links, next_, [](const LinkView& link) {
            return carries_bulk(link) && link.room != 0 && link.in_flight == 0 && !link.peer_busy;
        });
        if (!chosen)
            chosen = in_turn(links, next_, [](const LinkView& link) {
                return carries_bulk(link) && link.room != 0;
            });
        if (!chosen) return std::nullopt;
        next_ = *chosen + 1;
        return Choice{*chosen};
    }

  private:
    std::size_t next_ = 0;
};

/// Earliest completion of all that is pending: links are filled like vessels with one level, the
/// time at which everything is there. A link whose queue stands above it gets nothing: waiting for
/// the others is better.
class AdaptivePolicy final : public Policy {
  public:
    std::optional<Choice> choose(std::span<const LinkView> links, std::uint64_t pending) override {
        const double end = level(links, pending);
        const auto next = static_cast<double>(std::min(pending, piece));
        const LinkView* best = nullptr;
        double earliest = 0;
        for (const LinkView& link : links) {
            if (!carries_bulk(link) || link.room == 0) continue;
            if (is_measured(link) && emptied(link) > end + worth_waiting) continue;
            const double arrival = emptied(link) + next / rate_of(link);
            if (best == nullptr || arrival < earliest) {
                best = &link;
                earliest = arrival;
            }
        }
        if (best == nullptr) return std::nullopt;
        if (!is_measured(*best)) return Choice{best->index};
        // Pieces that take no time are not cut: each costs the processor as much as a long one.
        const double bytes = std::max(end - emptied(*best), shortest_piece) * rate_of(*best);
        return Choice{best->index, static_cast<std::uint64_t>(bytes)};
    }

  private:
    static bool is_measured(const LinkView& link) noexcept { return link.rate > 0; }
    static double rate_of(const LinkView& link) noexcept {
        return is_measured(link) ? link.rate : unknown_rate;
    }
    /// When what is on the way will be there, in seconds. The queue is in these bytes; a round trip
    /// through it would count it twice, and for ever on a link that is not chosen any more.
    static double emptied(const LinkView& link) noexcept {
        return static_cast<double>(link.in_flight) / rate_of(link) +
               static_cast<double>(link.least_round_trip) / 2e9;
    }
    /// When all can be there, if each link carries until then. Those that were not measured are
    /// trusted with no more than they have room for.
    static double level(std::span<const LinkView> links, std::uint64_t pending) noexcept {
        double rest = static_cast<double>(pending);
        for (const LinkView& link : links)
            if (carries_bulk(link) && !is_measured(link)) rest -= link.room;
        rest = std::max(rest, 0.0);
        // Links are left out from the last to be empty on, until all others are below the level.
        double end = std::numeric_limits<double>::infinity();
        for (;;) {
            double rates = 0;
            double bytes = rest;
            double highest = 0;
            for (const LinkView& link : links) {
                if (!carries_bulk(link) || !is_measured(link) || emptied(link) >= end) continue;
                rates += link.rate;
                bytes += emptied(link) * link.rate;
                highest = std::max(highest, emptied(link));
            }
            if (rates == 0) return end;
            const double filled = bytes / rates;
            if (filled >= highest) return filled;
            end = highest;
        }
    }

    static constexpr std::uint64_t piece = 64U << 10U;  ///< as long as a train, about
    /// For less than this, in seconds, nobody waits.
    static constexpr double worth_waiting = 0.1e-3;
    static constexpr double shortest_piece = 0.1e-3;  ///< in seconds
    /// A link that has not been measured is tried soon.
    static constexpr double unknown_rate = 1e10;
};

}  // namespace

std::optional<PolicyKind> policy_named(std::string_view name) noexcept {
    for (const Named& entry : names)
        if (name == entry.name) return entry.kind;
    return std::nullopt;
}

const char* name_of(PolicyKind kind) noexcept {
    for (const Named& entry : names)
        if (kind == entry.kind) return entry.name;
    return "unknown";
}

std::optional<std::size_t> Policy::choose_short(std::span<const LinkView> links) {
    // The one used last stays unless another is clearly faster: changing costs more than it brings.
    // A link that is only for short messages is there because it is the faster one.
    const auto time_on = [&](const LinkView& link) {
        base::Nanoseconds time = link.short_only ? 0 : link.round_trip;
        if (last_short_ == link.index) time -= time / 4;
        if (link.room == 0) time += 1'000'000'000;
        return time;
    };
    const LinkView* best = nullptr;
    for (const LinkView& link : links)
        if (link.up && (best == nullptr || time_on(link) < time_on(*best))) best = &link;
    if (best == nullptr) return std::nullopt;
    last_short_ = best->index;
    return best->index;
}

std::unique_ptr<Policy> make_policy(PolicyKind kind, const PolicyTerms& terms) {
    switch (kind) {
        case PolicyKind::Static:
            return std::make_unique<StaticPolicy>(terms);
        case PolicyKind::OneWay:
            return std::make_unique<OneWayPolicy>(terms);
        case PolicyKind::Dynamic:
            return std::make_unique<DynamicPolicy>();
        case PolicyKind::Adaptive:
            break;
    }
    return std::make_unique<AdaptivePolicy>();
}

}  // namespace via::links
