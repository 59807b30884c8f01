// SPDX-License-Identifier: BSD-3-Clause
// The plan of one direction of one VI of the soak: who sends what from which pieces, and where it
// has to arrive. Both processes draw it from the same random numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "na/seeded.hpp"

namespace via::test {

inline constexpr std::uint32_t area_bytes = 3U << 20;

/// What an area of memory is for. The first two belong to the initiator, the others to the target.
enum AreaName : std::uint32_t { Out, Landing, In, Window, Source, area_count };

struct Piece {
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
};
/// Bytes that have to be at one place of an area.
struct Extent {
    Piece piece;
    std::uint64_t stream = 0;
    std::uint64_t first = 0;
};

enum class Kind { Send, Write, Read };

struct Step {
    Kind kind = Kind::Send;
    bool immediate = false;
    bool fenced = false;
    std::uint32_t immediate_data = 0;
    std::uint32_t bytes = 0;
    std::uint64_t stream = 0;
    AreaName local_area = Out;
    std::vector<Piece> local;
    std::uint32_t remote = 0;  ///< offset in the target's window or source
    bool consumes = false;     ///< a receive
    std::vector<Piece> receive;

    [[nodiscard]] std::vector<Extent> extents(const std::vector<Piece>& pieces) const {
        std::vector<Extent> result;
        std::uint32_t put = 0;
        for (const Piece& piece : pieces) {
            const std::uint32_t here = std::min(piece.bytes, bytes - put);
            if (here != 0) result.push_back({{piece.offset, here}, stream, put});
            put += here;
        }
        return result;
    }
    [[nodiscard]] Extent remote_extent() const { return {{remote, bytes}, stream, 0}; }
};

class Planner {
  public:
    Planner(std::uint64_t seed, bool reads, std::uint32_t most_segments);
    std::vector<Step> draw();

  private:
    /// Some room is kept for the last message.
    [[nodiscard]] bool fits(std::uint32_t bytes) const;
    bool add_one();
    [[nodiscard]] Step begin(Kind kind, std::uint32_t bytes);
    void finish(Step&& step);
    std::uint32_t take(AreaName area, std::uint32_t bytes);
    /// So many bytes in pieces, some of them empty, that lie in any order.
    std::vector<Piece> cut(AreaName area, std::uint32_t bytes, std::uint32_t most);

    Random random_;
    std::uint64_t stream_;
    bool reads_;
    std::uint32_t most_segments_;
    std::array<std::uint32_t, area_count> used_{};
    std::vector<Step> steps_;
};

}  // namespace via::test
