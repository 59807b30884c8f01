// SPDX-License-Identifier: BSD-3-Clause
// Descriptors that other processes sent: what they are, and how to be rid of them.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::ka {

/// A memfd of ordinary pages that can not shrink. (Huge pages can be taken away under a mapping.)
[[nodiscard]] base::Result<void> verify_plain_memory(const base::UniqueFd& file, std::size_t bytes);
[[nodiscard]] base::Result<void> verify_eventfd(const base::UniqueFd& file);

/// The present soft limit of open descriptors.
[[nodiscard]] std::uint64_t descriptor_limit() noexcept;
/// If this process can open no more descriptors now: the error with the limit's name and value.
[[nodiscard]] base::Error name_descriptor_limit(base::Error error, const char* whose);

/// Closing a descriptor can block for as long as whoever made it likes (a FUSE file, a lingering
/// socket). What is not known to be harmless is closed here, by a thread that exists only while
/// there is something to close.
class Disposal {
  public:
    Disposal() : shared_(std::make_shared<Shared>()) {}
    void dispose(uid_t uid, base::UniqueFd fd);
    /// How many descriptors of this user are still to be closed.
    [[nodiscard]] std::size_t pending(uid_t uid) const;

  private:
    struct Shared {
        std::mutex mutex;
        std::deque<std::pair<uid_t, base::UniqueFd>> queue;
        std::map<uid_t, std::size_t> counts;
        bool running = false;
    };
    static void run(const std::shared_ptr<Shared>& shared);
    std::shared_ptr<Shared> shared_;  // outlives us if the thread is stuck
};

}  // namespace via::ka
