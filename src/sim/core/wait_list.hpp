// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <coroutine>

namespace via::sim {

/// A process that waits. It lies in the frame of that process: waiting allocates nothing.
struct Waiter {
    Waiter() = default;
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    std::coroutine_handle<> process = nullptr;
    Waiter* next = nullptr;

  protected:
    ~Waiter() = default;
};

/// First come, first served.
template <class Node>
class WaitList {
  public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] Node& front() const noexcept { return static_cast<Node&>(*first_); }

    void push(Node& node, std::coroutine_handle<> process) noexcept {
        node.process = process;
        node.next = nullptr;
        (empty() ? first_ : last_->next) = &node;
        last_ = &node;
    }

    Node& pop() noexcept {
        Node& node = front();
        first_ = node.next;
        return node;
    }

    /// Of one who is in the list and gives up.
    void remove(Node& node) noexcept {
        Waiter* before = nullptr;
        Waiter** link = &first_;
        while (*link != &node) {
            before = *link;
            link = &before->next;
        }
        *link = node.next;
        if (last_ == &node) last_ = before;
    }

  private:
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;  // of a list that is not empty
};

}  // namespace via::sim
