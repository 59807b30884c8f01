// SPDX-License-Identifier: BSD-3-Clause
#include "links/policy.hpp"

#include <array>

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
    std::optional<std::size_t> choose(std::span<const LinkView> links, std::uint32_t) override {
        if (links.empty()) return std::nullopt;
        const auto bound = in_turn(links, connection_ % links.size(), carries_bulk);
        if (!bound || links[*bound].room == 0) return std::nullopt;
        return bound;
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
    std::optional<std::size_t> choose(std::span<const LinkView> links, std::uint32_t) override {
        if (links.empty()) return std::nullopt;
        const auto mine = [&](const LinkView& link) {
            return carries_bulk(link) && link.index % 2 == parity_;
        };
        const bool any = in_turn(links, 0, mine).has_value();
        const auto chosen = in_turn(links, next_, [&](const LinkView& link) {
            return (any ? mine(link) : carries_bulk(link)) && link.room != 0;
        });
        if (chosen) next_ = *chosen + 1;
        return chosen;
    }

  private:
    std::size_t parity_;
    std::size_t next_ = 0;
};

/// The paper's: a link is busy if it is sending here or receiving there.
class DynamicPolicy final : public Policy {
  public:
    std::optional<std::size_t> choose(std::span<const LinkView> links, std::uint32_t) override {
        if (links.empty()) return std::nullopt;
        auto chosen = in_turn(links, next_, [](const LinkView& link) {
            return carries_bulk(link) && link.room != 0 && link.in_flight == 0 && !link.peer_busy;
        });
        if (!chosen)
            chosen = in_turn(links, next_, [](const LinkView& link) {
                return carries_bulk(link) && link.room != 0;
            });
        if (chosen) next_ = *chosen + 1;
        return chosen;
    }

  private:
    std::size_t next_ = 0;
};

/// Earliest completion. Waiting for a fast link can be better than using a slow one.
class AdaptivePolicy final : public Policy {
  public:
    std::optional<std::size_t> choose(std::span<const LinkView> links,
                                      std::uint32_t bytes) override {
        const LinkView* best = nullptr;
        const LinkView* open = nullptr;  // the best of those that have room
        double earliest = 0;
        double earliest_open = 0;
        for (const LinkView& link : links) {
            if (!carries_bulk(link)) continue;
            const double rate = link.rate > 0 ? link.rate : unknown_rate;
            // The queue is in the bytes on the way; a round trip through it would count it twice,
            // and for ever on a link that is not chosen any more.
            const double arrival = (static_cast<double>(link.in_flight) + bytes) / rate +
                                   static_cast<double>(link.least_round_trip) / 2e9;
            if (best == nullptr || arrival < earliest) {
                best = &link;
                earliest = arrival;
            }
            if (link.room != 0 && (open == nullptr || arrival < earliest_open)) {
                open = &link;
                earliest_open = arrival;
            }
        }
        if (open == nullptr || earliest_open > 2 * earliest + worth_waiting) return std::nullopt;
        return open->index;
    }

  private:
    /// For less than as long again and this, in seconds, nobody waits: links would run dry behind
    /// one with a short window, or whose queue is short for a moment.
    static constexpr double worth_waiting = 0.5e-3;
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
