// SPDX-License-Identifier: BSD-3-Clause
#include "na/auto/auto_endpoint.hpp"

#include <utility>

namespace via::na::any {

AutoEndpoint::AutoEndpoint(std::unique_ptr<Endpoint> local, std::unique_ptr<Endpoint> remote)
    : local_(std::move(local)), remote_(std::move(remote)), chosen_(local_.get()) {}

void AutoEndpoint::disconnect() {
    local_->disconnect();
    remote_->disconnect();
}

AutoPollGroup::AutoPollGroup(std::unique_ptr<PollGroup> local, std::unique_ptr<PollGroup> remote)
    : local_(std::move(local)), remote_(std::move(remote)) {}

bool AutoPollGroup::poll() {
    const bool here = local_->poll();
    return remote_->poll() || here;
}

void AutoPollGroup::arm(Wakes wakes) {
    local_->arm(wakes);
    remote_->arm(wakes);
}

}  // namespace via::na::any
