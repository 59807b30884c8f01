// SPDX-License-Identifier: BSD-3-Clause
// Where the ranks of one host meet: each lays down a few bytes, and goes on when all have. What the
// others laid down is then there to be read until the next turn but one begins, which nobody begins
// before all have come to the next. So two places for each rank are enough, by turns.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/cpu.hpp"
#include "base/fd.hpp"
#include "base/memory_file.hpp"
#include "base/result.hpp"

namespace via::openmpi {

/// By which the others of a communicator find the memory that one of them has made.
struct Invitation {
    std::uint64_t token = 0;          ///< what its memory begins with; 0: there is none
    std::uint64_t pid_namespace = 0;  ///< process numbers mean the same only there
    std::int32_t pid = 0;
    std::int32_t descriptor = 0;  ///< of that process
};

class Meeting {
  public:
    /// Longer ones gain nothing: each rank reads what all of them brought.
    static constexpr std::size_t most_bytes = 1024 - 2 * sizeof(std::uint64_t);
    static constexpr std::uint32_t most_ranks = 64;
    /// With a core for each, more of them are quicker by messages: they come from few others, where
    /// here everybody looks at everybody. (By what a line takes from core to core; not measured.)
    static constexpr std::uint32_t most_with_own_cores = 16;
    /// May a rank give its core away while it waits for another?
    enum class Patience : std::uint8_t { Yields, Spins };

    /// The memory of a new meeting. The file is to be kept until all have come.
    struct Made {
        base::UniqueFd file;
        Invitation invitation;
        std::unique_ptr<Meeting> meeting;
    };
    [[nodiscard]] static base::Result<Made> make(std::uint32_t rank, std::uint32_t ranks,
                                                 Patience patience);
    [[nodiscard]] static base::Result<std::unique_ptr<Meeting>> join(const Invitation& invitation,
                                                                     std::uint32_t rank,
                                                                     std::uint32_t ranks,
                                                                     Patience patience);

    /// The next turn: this rank brings the given bytes, at most most_bytes; all bring as many.
    void arrive(const void* bytes, std::size_t count) noexcept;
    /// Until all have come. False: the process of one who has not is over. `progress` is called now
    /// and then.
    template <class Progress>
    [[nodiscard]] bool wait(Progress&& progress) noexcept;
    /// After wait(), and until the next turn of this rank but one.
    [[nodiscard]] std::byte* brought_by(std::uint32_t rank) const noexcept;
    [[nodiscard]] std::uint32_t ranks() const noexcept { return ranks_; }

  private:
    /// What a rank brings of at most a word is stored with the turn in one piece: the line that the
    /// others look at goes to them once.
    struct Place {
        std::atomic<std::uint64_t> word;
        std::atomic<std::uint64_t> turn;  ///< and the rank's core, see turn_of
        std::byte bytes[most_bytes];
    };
    /// What the memory begins with; the places of all ranks follow.
    struct alignas(base::cache_line) Head {
        std::uint64_t token;
        std::atomic<std::int32_t> pids[most_ranks];
    };
    static constexpr std::uint32_t looks_before_progress = 256;
    static constexpr std::uint32_t looks_between_progress = 32;
    static constexpr std::uint32_t yields_between_progress = 4;
    /// Milliseconds, if nobody else wants the core: a system call for each who is absent.
    static constexpr std::uint32_t looks_between_roll_calls = 1U << 17;
    enum class Absent : std::uint8_t { None, OnThisCore, Elsewhere };

    Meeting(base::Mapping memory, std::uint32_t rank, std::uint32_t ranks, Patience patience);
    [[nodiscard]] static std::size_t bytes_for(std::uint32_t ranks) noexcept {
        return sizeof(Head) + sizeof(Place) * 2 * ranks;
    }
    [[nodiscard]] Head& head() const noexcept { return *reinterpret_cast<Head*>(mapping_.data()); }
    [[nodiscard]] Place& place(std::uint32_t rank, std::uint64_t turn) const noexcept {
        return places_[2 * rank + turn % 2];
    }
    /// The core is told one too high: 0 is none.
    [[nodiscard]] static std::uint64_t turn_of(std::uint64_t turn, std::uint32_t core) noexcept {
        return turn << 16 | (core & 0xFFFF);
    }
    [[nodiscard]] Absent look() const noexcept;
    [[nodiscard]] bool anybody_is_over() const noexcept;

    base::Mapping mapping_;
    Place* places_;
    std::uint32_t rank_;
    std::uint32_t ranks_;
    Patience patience_;
    bool in_word_ = false;  ///< of this turn
    std::uint32_t core_ = 0;
    std::uint64_t turn_ = 0;
};

inline std::byte* Meeting::brought_by(std::uint32_t rank) const noexcept {
    Place& where = place(rank, turn_);
    return in_word_ ? reinterpret_cast<std::byte*>(&where.word) : where.bytes;
}

/// Who is on this core comes only if it is given away, so they matter most.
inline Meeting::Absent Meeting::look() const noexcept {
    auto absent = Absent::None;
    for (std::uint32_t each = 0; each < ranks_; ++each) {
        const auto come = [&](std::uint64_t there) { return there >> 16 == turn_; };
        if (come(base::load_then_order(place(each, turn_).turn, come))) continue;
        const std::uint64_t last = place(each, turn_ - 1).turn.load(std::memory_order_relaxed);
        if ((last & 0xFFFF) == core_) return Absent::OnThisCore;
        absent = Absent::Elsewhere;
    }
    return absent;
}

template <class Progress>
bool Meeting::wait(Progress&& progress) noexcept {
    for (std::uint32_t looks = 1;; ++looks) {
        const Absent absent = look();
        if (absent == Absent::None) [[likely]]
            return true;
        if (absent == Absent::OnThisCore && patience_ == Patience::Yields) {
            ::sched_yield();
            if (looks % yields_between_progress == 0) progress();
        } else if (looks >= looks_before_progress && looks % looks_between_progress == 0) {
            progress();
        }
        if (looks % looks_between_roll_calls == 0 && anybody_is_over()) [[unlikely]]
            return false;
    }
}

}  // namespace via::openmpi
