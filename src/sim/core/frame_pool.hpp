// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace via::sim {

/// Base of promises: their coroutines' frames come from lists of free frames by size, one set per
/// thread. A simulation makes and drops millions of frames of a few sizes.
struct PooledFrame {
    static void* operator new(std::size_t size);
    static void operator delete(void* frame, std::size_t size) noexcept;
};

}  // namespace via::sim
