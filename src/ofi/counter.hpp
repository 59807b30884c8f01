// SPDX-License-Identifier: BSD-3-Clause
// Counters of completed operations. Reading one makes progress: programs with nothing but counters
// (one-sided traffic) need no completion queue.
#pragma once

#include <atomic>
#include <cstdint>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "ofi/references.hpp"
#include "ofi/waitable.hpp"

namespace via::ofi {

class Domain;

class Counter final : public fid_cntr, public Waitable {
  public:
    static int open(fid_domain* domain, fi_cntr_attr* attributes, fid_cntr** counter,
                    void* context);

    void add(std::uint64_t count) noexcept {
        value_.fetch_add(count);
        changed();
    }
    void add_error(std::uint64_t count) noexcept {
        errors_.fetch_add(count);
        changed();
    }
    void set(std::uint64_t value) noexcept {
        value_.store(value);
        changed();
    }
    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_.load(std::memory_order_acquire);
    }
    /// What triggers look at.
    [[nodiscard]] std::uint64_t all() const noexcept { return value_.load() + errors_.load(); }
    /// The domain's trigger queue hears of it when all() is that or more.
    static constexpr std::uint64_t never = ~0ULL;
    void trip_at(std::uint64_t threshold) noexcept { trip_at_.store(threshold); }
    [[nodiscard]] Domain& domain() noexcept { return domain_; }

    [[nodiscard]] bool ready() override;
    void prepare_to_sleep() override;
    void progress() override;

  private:
    Counter(Domain& domain, void* context);
    void changed() noexcept {
        wait_object().signal_if_wanted();
        if (all() >= trip_at_.load()) [[unlikely]]
            trip();
    }
    /// Orders wait for what it is now.
    [[gnu::noinline]] void trip() noexcept;
    /// The program changed it: whoever sleeps on it looks again.
    void changed_by_program() noexcept;
    bool make_progress();

    static std::uint64_t read(fid_cntr* counter);
    static std::uint64_t read_errors(fid_cntr* counter);
    static int add_value(fid_cntr* counter, std::uint64_t value);
    static int set_value(fid_cntr* counter, std::uint64_t value);
    static int add_error_value(fid_cntr* counter, std::uint64_t value);
    static int set_error_value(fid_cntr* counter, std::uint64_t value);
    static int wait(fid_cntr* counter, std::uint64_t threshold, int timeout);
    static int close(struct fid* fid);
    static int control(struct fid* fid, int command, void* argument);

    static fi_ops_cntr operations;
    static fi_ops object_operations;

    Domain& domain_;
    Reference domain_reference_;
    std::atomic<std::uint64_t> value_{0};
    std::atomic<std::uint64_t> errors_{0};
    std::atomic<std::uint64_t> trip_at_{never};
    std::atomic<std::uint64_t> last_told_{0};  ///< value + errors when ready() last said yes
};

}  // namespace via::ofi
