// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/event_queue.hpp"

#include <algorithm>

namespace via::sim {

bool EventQueue::cancel(Ticket ticket) noexcept {
    const auto found = std::find_if(heap_.begin(), heap_.end(),
                                    [&](const Entry& entry) { return entry.ticket == ticket; });
    if (found == heap_.end()) return false;
    remove(static_cast<std::size_t>(found - heap_.begin()));
    return true;
}

void EventQueue::remove(std::size_t place) noexcept {
    const Entry last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (place == size) return;
    const Wide last_key = last.key();
    std::size_t hole = place;
    for (;;) {
        const std::size_t first_child = 4 * hole + 1;
        if (first_child >= size) break;
        std::size_t least = first_child;
        Wide least_key = heap_[first_child].key();
        const std::size_t end = std::min(first_child + 4, size);
        for (std::size_t child = first_child + 1; child < end; ++child) {
            const Wide key = heap_[child].key();
            least = key < least_key ? child : least;
            least_key = key < least_key ? key : least_key;
        }
        if (last_key < least_key) break;
        heap_[hole] = heap_[least];
        hole = least;
    }
    rise(hole, last);  // moves up only where an event was cancelled
}

}  // namespace via::sim
