// SPDX-License-Identifier: BSD-3-Clause
// What a program can sleep on with fi_trywait, wait sets and poll sets: completion queues, event
// queues, counters.
#pragma once

#include "ofi/references.hpp"
#include "ofi/wait_object.hpp"

namespace via::ofi {

class WaitSet;

class Waitable {
  public:
    Waitable() = default;
    virtual ~Waitable();
    Waitable(const Waitable&) = delete;
    Waitable& operator=(const Waitable&) = delete;

    /// Something is there for the program (a counter: something new since it last was).
    [[nodiscard]] virtual bool ready() = 0;
    /// Makes sure that a signal follows whatever comes from now on.
    virtual void prepare_to_sleep() = 0;
    /// Moves what can be moved.
    virtual void progress() = 0;
    /// fi_trywait: 0, the caller may sleep; -FI_EAGAIN, there is something.
    [[nodiscard]] int try_wait() {
        if (ready()) return -FI_EAGAIN;
        prepare_to_sleep();
        return ready() ? -FI_EAGAIN : 0;
    }

    [[nodiscard]] References& references() noexcept { return references_; }

  protected:
    /// The set's object if the attributes name one.
    [[nodiscard]] int open_wait(fi_wait_obj kind, fid_wait* set);
    [[nodiscard]] WaitObject& wait_object() noexcept { return *object_; }
    [[nodiscard]] const WaitObject& wait_object() const noexcept { return *object_; }

  private:
    WaitObject own_;
    WaitObject* object_ = &own_;
    WaitSet* set_ = nullptr;
    References references_;
};

}  // namespace via::ofi
