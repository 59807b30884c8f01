// SPDX-License-Identifier: BSD-3-Clause
// What must be taken back when a function does not come to its good end, by a return or because
// memory has run out.
#pragma once

#include <utility>

namespace via::base {

/// What is never kept is done at the end of the scope, however it ends. The action must need no
/// memory itself.
template <class Action>
class [[nodiscard]] Undo {
  public:
    explicit Undo(Action action) noexcept : action_(std::move(action)) {}
    Undo(const Undo&) = delete;
    Undo& operator=(const Undo&) = delete;
    ~Undo() {
        if (wanted_) action_();
    }
    /// All is well: nothing is taken back.
    void keep() noexcept { wanted_ = false; }

  private:
    Action action_;
    bool wanted_ = true;
};

}  // namespace via::base
