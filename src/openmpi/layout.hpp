// SPDX-License-Identifier: BSD-3-Clause
// Where the bytes of a message lie. Most datatypes are one piece of memory; what is not goes by a
// packed copy, which Open MPI's convertor makes and takes apart.
#pragma once

#include <cstddef>

#include "openmpi/open_mpi.hpp"

namespace via::openmpi {

struct Layout {
    void* buffer = nullptr;
    std::size_t count = 0;
    ompi_datatype_t* datatype = nullptr;

    [[nodiscard]] std::size_t bytes() const noexcept { return datatype->super.size * count; }
    [[nodiscard]] bool is_one_piece() const noexcept {
        // It asks whether there is more than one, and its parameter is an int.
        return opal_datatype_is_contiguous_memory_layout(&datatype->super, count > 1 ? 2 : 1) != 0;
    }
    /// If it is one piece.
    [[nodiscard]] void* begin() const noexcept {
        return static_cast<char*>(buffer) + datatype->super.true_lb;
    }
    void pack(void* to) const noexcept;
    void unpack(const void* from, std::size_t bytes) const noexcept;
};

}  // namespace via::openmpi
