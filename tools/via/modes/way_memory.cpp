// SPDX-License-Identifier: BSD-3-Clause
#include "modes/way_memory.hpp"

#include "na/shm/copy_paths.hpp"

namespace via::tool {

bool IncomingMemory::fetch(Fetch fetch, Reference from, void* to, std::size_t bytes) const {
    auto* place = static_cast<std::byte*>(to);
    if (fetch == Fetch::Cma) return na::shm::cma_read(sender_, place, from, bytes);
    if (from > sizeof shared_ || bytes > sizeof shared_ - from) return false;
    na::shm::copy_for_peer(place, reinterpret_cast<const std::byte*>(&shared_) + from, bytes);
    return true;
}

}  // namespace via::tool
