// SPDX-License-Identifier: BSD-3-Clause
// The six ways of the mechanisms study to give a message to the other side, as they can be had
// between two processes of one host. The simulator's send types name them; what is by reference can
// be fetched in two manners here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/firmware/send_study.hpp"

namespace via::tool {

/// How the receiver's side gets at what it is only told the place of.
enum class Fetch {
    Nothing,  ///< all of it was copied
    Mapping,  ///< it maps the sender's memory, as it does kmem
    Cma,      ///< process_vm_readv: ordinary memory
};

struct Way {
    std::string_view type;  ///< "User:ST", as the simulator calls it
    sim::SendType sends;
    Fetch fetch = Fetch::Nothing;
    [[nodiscard]] bool copies_data() const { return fetch == Fetch::Nothing; }
};

/// All ten: the four types by reference in both manners, and the two by copy.
[[nodiscard]] std::span<const Way> all_ways();

/// "mapping", "cma", "copy"
[[nodiscard]] std::string_view to_text(Fetch fetch);
/// "User:ST by mapping", "User:ST,DT"
[[nodiscard]] std::string describe(const Way& way);

}  // namespace via::tool
