// SPDX-License-Identifier: BSD-3-Clause
// Through the kernel: what is given is handed to a system call that carries it to the other
// process, here a Unix socket that keeps messages apart. Neither side sleeps: the study's NI polls,
// and its ioctl returns as soon as the NI has been told, so waking a process would measure
// something else. The receiver asks again and again (MSG_DONTWAIT).
// All functions wait; false: they waited in vain, or the kernel refused (errno).
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "modes/instruction.hpp"
#include "modes/patience.hpp"

namespace via::tool {

class KernelCarrier {
  public:
    /// Two connected ends that can hold a message of `most_bytes` and its structure.
    [[nodiscard]] static base::Result<std::pair<base::UniqueFd, base::UniqueFd>> make_ends(
        std::size_t most_bytes);

    KernelCarrier(int socket, const Patience& patience) : socket_(socket), patience_(patience) {}

    [[nodiscard]] bool send_word(Reference word);
    [[nodiscard]] bool send_structure(const Instruction& structure);
    [[nodiscard]] bool send_all(const Instruction& structure, const std::byte* data);

    [[nodiscard]] bool receive_word(Reference& word);
    [[nodiscard]] bool receive_structure(Instruction& structure);
    /// The kernel copies straight to `place`.
    [[nodiscard]] bool receive_all(Instruction& structure, std::span<std::byte> place);

  private:
    int socket_;
    Patience patience_;
};

}  // namespace via::tool
