// SPDX-License-Identifier: BSD-3-Clause
// Quantities belong to the tool, which shows reports; here they have their old names.
#pragma once

#include "via/quantity.hpp"

namespace via::bench {

using tool::less_is_better;
using tool::Quantity;
using tool::show;
using tool::show_bytes;
using tool::unit_of;

}  // namespace via::bench
