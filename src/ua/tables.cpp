// SPDX-License-Identifier: BSD-3-Clause
#include "ua/tables.hpp"

#include "ua/nic.hpp"

namespace via::ua {
namespace {

// Never destroyed: threads may use handles while the process exits.
ViTable* vis = new ViTable;
CqTable* cqs = new CqTable;

}  // namespace

ViTable& vi_table() noexcept {
    return *vis;
}
CqTable& cq_table() noexcept {
    return *cqs;
}

void forget_all_handles() {
    // The old tables stay: another thread's half-done work in them is not ours to end.
    vis = new ViTable;
    cqs = new CqTable;
    forget_all_nics();
}

}  // namespace via::ua
