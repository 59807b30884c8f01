// SPDX-License-Identifier: BSD-3-Clause
// Where the handles of the process lead to.
#pragma once

#include "ua/completion_queue.hpp"
#include "ua/handle_table.hpp"
#include "ua/virtual_interface.hpp"

namespace via::ua {

using ViTable = HandleTable<VirtualInterface, 0x56>;
using CqTable = HandleTable<CompletionQueue, 0x43>;

// Never destroyed: threads may use handles while the process exits.
extern ViTable* all_vis;
extern CqTable* all_cqs;

[[nodiscard]] inline ViTable& vi_table() noexcept {
    return *all_vis;
}
[[nodiscard]] inline CqTable& cq_table() noexcept {
    return *all_cqs;
}
/// In a forked child: the parent's handles mean nothing.
void forget_all_handles();

}  // namespace via::ua
