// SPDX-License-Identifier: BSD-3-Clause
// How a plan of the soak is drawn: sizes at all the edges, pieces in any order.
#include "system/soak_plan.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace via::test {
namespace {

constexpr std::uint32_t longest_message = 2U << 20;

std::uint32_t choose_bytes(Random& random) {
    static constexpr std::uint32_t small_edges[] = {
        0,    1,    2,    3,     4,     7,     8,     9,     15,    16,   17,   22,
        23,   24,   37,   38,    39,    52,    53,    54,    55,    56,   57,   63,
        64,   65,   127,  128,   129,   255,   256,   257,   1000,  4095, 4096, 4097,
        8191, 8192, 8193, 16383, 16384, 16385, 32768, 65535, 65536, 65537};
    static constexpr std::uint32_t large_edges[] = {
        131071, 131072, 131073, 262144, (1U << 20) - 1, 1U << 20, (1U << 20) + 1, longest_message};
    const std::uint32_t way = random.below(16);
    if (way < 8) return small_edges[random.below(std::size(small_edges))];
    if (way == 8) return large_edges[random.below(std::size(large_edges))];
    if (way == 9) return random.below(longest_message + 1) >> random.below(8);
    return random.below((2U << random.below(17)));
}

}  // namespace

Planner::Planner(std::uint64_t seed, bool reads, std::uint32_t most_segments)
    : random_(seed), stream_(seed << 16), reads_(reads), most_segments_(most_segments) {
    for (std::uint32_t& used : used_)
        used = random_.below(200);
}

std::vector<Step> Planner::draw() {
    const std::uint32_t wanted = random_.one_in(4) ? random_.below(4) : random_.below(48);
    while (steps_.size() < wanted && add_one()) {
    }
    // The last message tells that everything before it has been done.
    Step last = begin(Kind::Send, random_.below(100));
    last.fenced = true;
    finish(std::move(last));
    return std::move(steps_);
}

bool Planner::fits(std::uint32_t bytes) const {
    return *std::max_element(used_.begin(), used_.end()) + bytes + (64U << 10) < area_bytes;
}

bool Planner::add_one() {
    const auto kind = static_cast<Kind>(random_.below(reads_ ? 5 : 4) / 2);
    std::uint32_t bytes = choose_bytes(random_);
    // A larger receive, the gaps between up to 252 pieces.
    if (!fits(2 * bytes)) bytes = random_.below(100);
    if (!fits(2 * bytes)) return false;
    Step step = begin(kind, bytes);
    if (kind != Kind::Read) {
        step.immediate = random_.one_in(3);
        step.fenced = random_.one_in(8);
        finish(std::move(step));
        return true;
    }
    step.local_area = Landing;
    Step relayed = step;
    finish(std::move(step));
    if (!random_.one_in(3)) return true;
    // What was read goes back at once; the fence makes that right.
    relayed.kind = random_.one_in(2) ? Kind::Send : Kind::Write;
    relayed.fenced = true;
    relayed.immediate = random_.one_in(2);
    relayed.local = steps_.back().local;
    finish(std::move(relayed));
    return true;
}

Step Planner::begin(Kind kind, std::uint32_t bytes) {
    Step step;
    step.kind = kind;
    step.bytes = bytes;
    step.stream = ++stream_;
    step.immediate_data = static_cast<std::uint32_t>(random_.next());
    return step;
}

void Planner::finish(Step&& step) {
    const std::uint32_t most = most_segments_ - (step.kind == Kind::Send ? 0 : 1);
    if (step.local.empty()) step.local = cut(step.local_area, step.bytes, most);
    if (step.kind == Kind::Write) step.remote = take(Window, step.bytes);
    if (step.kind == Kind::Read) step.remote = take(Source, step.bytes);
    step.consumes = step.kind == Kind::Send || (step.kind == Kind::Write && step.immediate);
    if (step.consumes) {
        std::uint32_t room = step.kind == Kind::Send ? step.bytes : random_.below(64);
        if (random_.one_in(3)) room += random_.below(random_.one_in(4) ? 5000 : 10);
        step.receive = cut(In, room, most_segments_);
    }
    steps_.push_back(std::move(step));
}

std::uint32_t Planner::take(AreaName area, std::uint32_t bytes) {
    std::uint32_t offset = used_[area] + random_.between(1, 40);
    if (random_.one_in(3)) offset = (offset + 63) / 64 * 64;
    if (bytes > 4096 && random_.one_in(4)) offset = (offset + 4095) / 4096 * 4096;
    used_[area] = offset + bytes;
    return offset;
}

std::vector<Piece> Planner::cut(AreaName area, std::uint32_t bytes, std::uint32_t most) {
    std::uint32_t count = random_.below(33);
    if (random_.one_in(3)) count = 1;
    if (random_.one_in(12)) count = random_.between(33, most);
    if (random_.one_in(40)) count = most;
    if (count == 0 && bytes != 0) count = 1;
    std::vector<Piece> pieces(count);
    if (count == 0) return pieces;
    std::vector<std::uint32_t> cuts{0, bytes};
    while (cuts.size() < count + 1)
        cuts.push_back(random_.below(bytes + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    for (std::uint32_t i = count - 1; i > 0; --i)
        std::swap(order[i], order[random_.below(i + 1)]);
    for (const std::uint32_t i : order) {
        pieces[i].bytes = cuts[i + 1] - cuts[i];
        pieces[i].offset = take(area, pieces[i].bytes);
    }
    return pieces;
}

}  // namespace via::test
