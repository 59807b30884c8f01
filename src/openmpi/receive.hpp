// SPDX-License-Identifier: BSD-3-Clause
// What receives, probes and persistent requests share.
#pragma once

#include "openmpi/module.hpp"

namespace via::openmpi {

/// Posts what the request says; `claimed`: for the message that a probe has set aside for it. If it
/// fails nothing is under way.
[[nodiscard]] int post_receive(Module& module, Request& request, bool claimed);
/// The same for a send (send.cpp).
[[nodiscard]] int start_send(Module& module, Request& request);
/// MPI's word for what became of it.
[[nodiscard]] int wait_and_free(Module& module, Request& request, ompi_status_public_t* status);

}  // namespace via::openmpi
