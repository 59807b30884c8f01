// SPDX-License-Identifier: BSD-3-Clause
// The labs that the rows between hosts are measured in. Each has links of one kind, so that nothing
// is switched over between two takes. They go with the object.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "lab/lab.hpp"

namespace via::bench {

struct NetLabs {
    static constexpr std::uint64_t gigabit = 1'000'000'000;
    static constexpr std::uint64_t slow_rate = 250'000'000;  ///< of the second link of `unequal`
    static constexpr lab::PartsPerMillion loss = 10'000;
    static constexpr base::Nanoseconds delay = 500'000;  ///< of `distant`, each way

    std::unique_ptr<lab::Lab> fast;     ///< two links as fast as the machine, MTU 1500
    std::unique_ptr<lab::Lab> jumbo;    ///< one such link, MTU 9000
    std::unique_ptr<lab::Lab> equal;    ///< two of a gigabit
    std::unique_ptr<lab::Lab> unequal;  ///< one of a gigabit, one of a quarter
    std::unique_ptr<lab::Lab> lossy;    ///< two of a gigabit; link 1 loses a hundredth
    std::unique_ptr<lab::Lab> distant;  ///< one that does, a millisecond there and back

    /// All of them, or why not.
    [[nodiscard]] static base::Result<NetLabs> up();
};

}  // namespace via::bench
