// SPDX-License-Identifier: BSD-3-Clause
#include "ua/tables.hpp"

#include "ua/nic.hpp"

namespace via::ua {

ViTable* all_vis = new ViTable;
CqTable* all_cqs = new CqTable;

void forget_all_handles() {
    // The old tables stay: another thread's half-done work in them is not ours to end.
    all_vis = new ViTable;
    all_cqs = new CqTable;
    forget_all_nics();
}

}  // namespace via::ua
