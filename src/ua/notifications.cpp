// SPDX-License-Identifier: BSD-3-Clause
#include "ua/notifications.hpp"

#include <vector>

#include "ua/nic.hpp"
#include "ua/tables.hpp"

namespace via::ua {
namespace {

void serve(CompletionQueue& cq) {
    const std::uint64_t own = cq.handle.load(std::memory_order_acquire);
    if (own == 0) return;
    const std::shared_ptr<Nic> nic = cq.nic();
    while (!cq.notifications.empty()) {
        cq.group()->arm(na::Wakes::Service);
        CompletionEntry entry;
        if (!cq.poll(entry)) return;
        CqHandler handler;
        if (!cq.notifications.take(handler)) {
            // Cancelled meanwhile: the entry goes back for whoever polls next.
            if (!cq.give_back(entry)) nic->raise_lost_completion(entry.vi);
            return;
        }
        nic->process().notification_served();
        handler.call(handler.context, nic->handle(), reinterpret_cast<VIP_VI_HANDLE>(entry.vi),
                     entry.receive ? VIP_TRUE : VIP_FALSE);
    }
}

}  // namespace

void serve_notifications() {
    // Collected first: a handler may create or destroy objects, and the tables' locks are not held.
    std::vector<VirtualInterface*> vis;
    std::vector<CompletionQueue*> cqs;
    vi_table().for_each([&](VirtualInterface& vi) { vis.push_back(&vi); });
    cq_table().for_each([&](CompletionQueue& cq) {
        if (!cq.notifications.empty()) cqs.push_back(&cq);
    });
    for (VirtualInterface* vi : vis)
        vi->serve_notifications();
    for (CompletionQueue* cq : cqs)
        serve(*cq);
}

void call_handlers() {
    while (const std::shared_ptr<Nic> nic = Nic::next_with_errors())
        nic->deliver_errors();
    serve_notifications();
}

}  // namespace via::ua
