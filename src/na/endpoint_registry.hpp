// SPDX-License-Identifier: BSD-3-Clause
// The endpoints of a NIC agent by index. Peers and the kernel name an endpoint by its index, which
// fits where a pointer does not and can be wrong without harm.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/undo.hpp"

namespace via::na {

template <class Endpoint>
class EndpointRegistry {
  public:
    /// `make(index)` makes it; no lock is held, since it joins its poll groups, whose locks come
    /// before this one.
    template <class Make>
    [[nodiscard]] std::unique_ptr<Endpoint> add(Make make) {
        const std::uint32_t index = take_index();
        base::Undo unused([&] { remove(index); });
        std::unique_ptr<Endpoint> endpoint = make(index);
        unused.keep();
        const std::unique_lock guard(mutex_);
        endpoints_[index] = endpoint.get();
        return endpoint;
    }
    /// Nobody visits it any more when this returns.
    void remove(std::uint32_t index) noexcept {
        const std::unique_lock guard(mutex_);
        endpoints_[index] = nullptr;
        free_.push_back(index);
    }

    /// Those that are there at first, first + step and so on. None of them goes meanwhile.
    template <class Visit>
    void visit(std::size_t first, std::size_t step, Visit visit) {
        const std::shared_lock guard(mutex_);
        for (std::size_t i = first; i < endpoints_.size(); i += step)
            if (endpoints_[i] != nullptr) visit(*endpoints_[i]);
    }
    template <class Visit>
    void visit_all(Visit visit_one) {
        visit(0, 1, visit_one);
    }
    /// The one at the index, if there is one.
    template <class Visit>
    void visit_at(std::uint32_t index, Visit visit) {
        const std::shared_lock guard(mutex_);
        if (index < endpoints_.size() && endpoints_[index] != nullptr) visit(*endpoints_[index]);
    }

  private:
    [[nodiscard]] std::uint32_t take_index() {
        const std::unique_lock guard(mutex_);
        if (!free_.empty()) {
            const std::uint32_t index = free_.back();
            free_.pop_back();
            return index;
        }
        const auto index = static_cast<std::uint32_t>(endpoints_.size());
        // Giving one back needs no memory.
        if (free_.capacity() <= index) free_.reserve(2 * index + 16);
        endpoints_.push_back(nullptr);
        return index;
    }

    std::shared_mutex mutex_;
    std::vector<Endpoint*> endpoints_;  ///< null: free
    std::vector<std::uint32_t> free_;
};

}  // namespace via::na
