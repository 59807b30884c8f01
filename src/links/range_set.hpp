// SPDX-License-Identifier: BSD-3-Clause
// Numbers that have come, as ranges. Nearly always there is one range, or a few.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace via::links {

class RangeSet {
  public:
    struct Range {
        std::uint64_t begin;
        std::uint64_t end;  ///< one beyond
        friend bool operator==(const Range&, const Range&) = default;
    };

    /// True if any of it is new.
    bool add(std::uint64_t begin, std::uint64_t end) {
        if (begin >= end) return false;
        // The common case: right behind the last one.
        if (!ranges_.empty() && ranges_.back().end == begin) {
            ranges_.back().end = end;
            return true;
        }
        auto first = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                                      [](const Range& r, std::uint64_t b) { return r.end < b; });
        if (first == ranges_.end() || first->begin > end) {
            ranges_.insert(first, {begin, end});
            return true;
        }
        if (first->begin <= begin && first->end >= end) return false;
        first->begin = std::min(first->begin, begin);
        first->end = std::max(first->end, end);
        auto last = first + 1;
        while (last != ranges_.end() && last->begin <= first->end) {
            first->end = std::max(first->end, last->end);
            ++last;
        }
        ranges_.erase(first + 1, last);
        return true;
    }

    [[nodiscard]] bool contains(std::uint64_t number) const noexcept {
        return covers(number, number + 1);
    }
    [[nodiscard]] bool covers(std::uint64_t begin, std::uint64_t end) const noexcept {
        for (auto i = ranges_.rbegin(); i != ranges_.rend(); ++i)
            if (i->begin <= begin) return end <= i->end;
        return false;
    }
    [[nodiscard]] const std::vector<Range>& ranges() const noexcept { return ranges_; }
    [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
    /// Keeps the highest ones.
    void keep_last(std::size_t most) {
        if (ranges_.size() > most)
            ranges_.erase(ranges_.begin(), ranges_.end() - static_cast<std::ptrdiff_t>(most));
    }
    void clear() noexcept { ranges_.clear(); }
    /// Everything below `end` has come meanwhile: takes out what reaches down to it, and says how
    /// far up that goes.
    [[nodiscard]] std::uint64_t join(std::uint64_t end) noexcept {
        auto first = ranges_.begin();
        for (; first != ranges_.end() && first->begin <= end; ++first)
            end = std::max(end, first->end);
        ranges_.erase(ranges_.begin(), first);
        return end;
    }
    /// One more, right behind the last range, which there must be.
    void extend() noexcept { ++ranges_.back().end; }

  private:
    std::vector<Range> ranges_;  ///< ascending, apart from each other
};

}  // namespace via::links
