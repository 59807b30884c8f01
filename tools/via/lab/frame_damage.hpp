// SPDX-License-Identifier: BSD-3-Clause
// Damages an Ethernet frame as a bad cable behind a good checksum would.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace via::lab {

/// Changes one byte of the payload of UDP or TCP and makes the checksum fit, so that the damage
/// reaches the program; of other IP packets and of other frames it changes a byte behind the
/// header. False if there is nothing to change.
bool damage_frame(std::span<std::uint8_t> frame, std::mt19937_64& random);

}  // namespace via::lab
