// SPDX-License-Identifier: BSD-3-Clause
#include "row.hpp"

namespace via::bench {

namespace {

Judgement judge_ahead(const Row& row, std::span<const Pair> pairs) {
    Judgement judgement;
    bool first = true;
    for (const std::size_t index : row.pairs) {
        const Spread spread = spread_of(advantages(pairs[index]));
        if (spread.median > 1) ++judgement.ahead;
        if (first || spread.median < judgement.value.median) {
            judgement.value = spread;
            judgement.deciding = index;
            first = false;
        }
    }
    judgement.verdict = judgement.ahead == row.pairs.size() ? Verdict::Pass : Verdict::Miss;
    return judgement;
}

}  // namespace

std::vector<double> advantages(const Pair& pair) {
    return less_is_better(pair.ours.quantity) ? ratios(pair.peer_values, pair.our_values)
                                              : ratios(pair.our_values, pair.peer_values);
}

Judgement judge(const Row& row, std::span<const Pair> pairs) {
    for (const std::size_t index : row.pairs) {
        if (auto why = pairs[index].not_measured(); !why.empty()) {
            Judgement judgement;
            judgement.deciding = index;
            judgement.why = std::move(why);
            return judgement;
        }
    }
    if (row.relation == Relation::Ahead) return judge_ahead(row, pairs);

    Judgement judgement;
    judgement.deciding = row.pairs.front();
    judgement.value = spread_of(pairs[judgement.deciding].comparison());
    const auto holds = [&](double limit) {
        const double value = judgement.value.median;
        if (row.relation == Relation::AtMost) return value <= limit;
        return value >= limit && (row.relation != Relation::Between || value <= row.most);
    };
    if (!row.must) {
        judgement.verdict = Verdict::Information;
    } else if (!holds(*row.must)) {
        judgement.verdict = Verdict::Miss;
    } else {
        judgement.verdict = row.aim && holds(*row.aim) ? Verdict::Aim : Verdict::Pass;
    }
    return judgement;
}

std::string_view group_name(Group group) {
    switch (group) {
        case Group::InHost:
            return "shm";
        case Group::BetweenHosts:
            return "net";
        case Group::Mpi:
            return "mpi";
        case Group::Simulator:
            return "sim";
    }
    return "";
}

std::string_view verdict_name(Verdict verdict) {
    switch (verdict) {
        case Verdict::Aim:
            return "pass, aim";
        case Verdict::Pass:
            return "pass";
        case Verdict::Miss:
            return "MISS";
        case Verdict::Information:
            return "";
        case Verdict::NotMeasured:
            return "not measured";
    }
    return "";
}

}  // namespace via::bench
