// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/trace.hpp"

namespace via::sim {

void Trace::record(const Span& span) {
    spans_.push_back({span.begin, span.end, own(span.lane), own(span.label), span.message});
}

std::string_view Trace::own(std::string_view name) {
    const auto found = names_.find(name);
    return found != names_.end() ? *found : *names_.emplace(name).first;
}

}  // namespace via::sim
