// SPDX-License-Identifier: BSD-3-Clause
// What stands in the counters page "as of the last look": the state of all devices of the process,
// summed up. Each device tells its own share now and then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>

#include "base/message_counters.hpp"

namespace via::mvich {

struct Gauges {
    std::uint64_t unexpected_now = 0;
    std::uint64_t vbufs_in_use = 0;
    std::uint64_t vbuf_regions = 0;
    std::uint64_t registered_bytes = 0;
    std::uint64_t registration_hits = 0;
    std::uint64_t registration_misses = 0;
    std::uint64_t registration_refused = 0;
    std::uint64_t registration_evicted = 0;
    std::uint64_t connections_in_host = 0;
    std::uint64_t connections_between_hosts = 0;
    /// Of the connection that has fewest left; the greatest number: there is none.
    std::uint64_t least_credits = std::numeric_limits<std::uint64_t>::max();
};

/// One device's share. Any thread may tell; the last one counts.
class GaugeShare {
  public:
    explicit GaugeShare(base::MessageCounters& page);
    /// What was counted stays in the page, what was held is gone.
    ~GaugeShare();
    GaugeShare(const GaugeShare&) = delete;
    GaugeShare& operator=(const GaugeShare&) = delete;

    void tell(const Gauges& now) noexcept;

  private:
    static void write(base::MessageCounters& page) noexcept;

    base::MessageCounters& page_;
    Gauges last_;
    const pid_t owner_;  ///< after fork() the child's page knows nothing of the parent's devices
};

}  // namespace via::mvich
