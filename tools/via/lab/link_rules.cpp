// SPDX-License-Identifier: BSD-3-Clause
#include "link_rules.hpp"

#include <fmt/format.h>

#include "names.hpp"

namespace via::lab {
namespace {

/// The question to the dice before a rule's action.
std::string chance(PartsPerMillion share) {
    if (share >= all_parts) return {};
    return fmt::format("numgen random mod {} < {} ", all_parts, share);
}

/// One transaction: there is no moment without rules.
std::string replace_table(const std::string& table, const std::string& hook,
                          const std::string& device, const std::string& rules) {
    std::string script = fmt::format("table netdev {0}\ndelete table netdev {0}\n", table);
    if (rules.empty()) return script;
    // Who is where is no matter of luck: the search for neighbours is left alone, or a lost packet
    // of it would stop a link for a second.
    script += fmt::format(
        "table netdev {} {{\n"
        " chain packets {{\n"
        "  type filter hook {} device \"{}\" priority 0; policy accept;\n"
        "  ether type arp accept\n"
        "  icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept\n"
        "{}"
        " }}\n"
        "}}\n",
        table, hook, device, rules);
    return script;
}

}  // namespace

std::string sending_rules(unsigned link, const LinkState& state) {
    const std::string device = device_name(link);
    std::string rules;
    // The double comes here again: the mark says that it is one. It does not leave the host.
    if (state.duplicate != 0)
        rules += fmt::format("  meta mark != 0x7701 {}meta mark set 0x7701 dup to \"{}\"\n",
                             chance(state.duplicate), device);
    if (state.relayed())
        rules += fmt::format("  {}fwd to \"{}\"\n", chance(state.relayed_share()),
                             relay_device_name(link));
    return replace_table(fmt::format("via_out_{}", device), "egress", device, rules);
}

std::string arrival_rules(const std::string& device, const LinkState& state) {
    std::string rules;
    if (state.silent)
        rules += "  counter drop\n";
    else if (state.loss != 0)
        rules += fmt::format("  {}counter drop\n", chance(state.loss));
    return replace_table(fmt::format("via_in_{}", device), "ingress", device, rules);
}

}  // namespace via::lab
