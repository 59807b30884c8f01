// SPDX-License-Identifier: BSD-3-Clause
// How a message says to which communicator it belongs, its tag, and who sent it. The message layer
// matches words of 64 bits; the sender's rank in the communicator travels as remote data, so that a
// receive from anybody learns it without a search.
#pragma once

#include <cstdint>

#include "mvich/order.hpp"
#include "openmpi/open_mpi.hpp"

namespace via::openmpi {

/// Tags below zero are Open MPI's own (collectives), and a receive of any tag must not see them.
inline constexpr std::uint64_t any_tag_ignores = 0x7FFFFFFF;

[[nodiscard]] inline std::uint64_t word_of(const ompi_communicator_t& comm, int tag) noexcept {
    return std::uint64_t{comm.c_contextid} << 32 | static_cast<std::uint32_t>(tag);
}
[[nodiscard]] inline int tag_of(std::uint64_t word) noexcept {
    return static_cast<int>(static_cast<std::uint32_t>(word));
}

/// What a receive or a probe asks for.
struct Pattern {
    mvich::Peer from;
    std::uint64_t word;
    std::uint64_t ignore;
    Pattern(mvich::Peer source, const ompi_communicator_t& comm, int tag) noexcept
        : from(source),
          word(word_of(comm, tag == MPI_ANY_TAG ? 0 : tag)),
          ignore(tag == MPI_ANY_TAG ? any_tag_ignores : 0) {}
};

}  // namespace via::openmpi
