// SPDX-License-Identifier: BSD-3-Clause
// The benchmarks run programs as the tool does.
#pragma once

#include "via/child_program.hpp"

namespace via::bench {

using tool::child::Command;
using tool::child::Outcome;
using tool::child::Process;

using tool::child::find_program;
using tool::child::last_words;
using tool::child::own_folder;
using tool::child::run;
using tool::child::to_text;

}  // namespace via::bench
