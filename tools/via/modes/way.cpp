// SPDX-License-Identifier: BSD-3-Clause
#include "modes/way.hpp"

#include <array>

namespace via::tool {

std::span<const Way> all_ways() {
    using sim::Given;
    static constexpr std::array<Way, 10> ways{{
        {"User", {Given::ByReference, false, false}, Fetch::Mapping},
        {"User", {Given::ByReference, false, false}, Fetch::Cma},
        {"User:ST", {Given::Structure, false, false}, Fetch::Mapping},
        {"User:ST", {Given::Structure, false, false}, Fetch::Cma},
        {"User:ST,DT", {Given::StructureAndData, false, false}, Fetch::Nothing},
        {"Syscall", {Given::ByReference, true, false}, Fetch::Mapping},
        {"Syscall", {Given::ByReference, true, false}, Fetch::Cma},
        {"Syscall:ST", {Given::Structure, true, false}, Fetch::Mapping},
        {"Syscall:ST", {Given::Structure, true, false}, Fetch::Cma},
        {"Syscall:ST,DT", {Given::StructureAndData, true, false}, Fetch::Nothing},
    }};
    return ways;
}

std::string_view to_text(Fetch fetch) {
    switch (fetch) {
        case Fetch::Nothing:
            return "copy";
        case Fetch::Mapping:
            return "mapping";
        case Fetch::Cma:
            return "cma";
    }
    return "?";
}

std::string describe(const Way& way) {
    std::string text(way.type);
    if (way.fetch == Fetch::Mapping) text += " by mapping";
    if (way.fetch == Fetch::Cma) text += " by CMA";
    return text;
}

}  // namespace via::tool
