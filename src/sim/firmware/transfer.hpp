// SPDX-License-Identifier: BSD-3-Clause
// One message as the firmware handles it, with the bytes and descriptors that belong to it. A model
// alone needs none: it counts bytes. Under the user agent a transfer moves real memory at the
// moments that the model says.
#pragma once

#include <cstdint>

namespace via::sim {

class Transfer {
  public:
    Transfer() = default;
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;
    virtual ~Transfer() = default;

    // At the sending NIC.
    /// Its descriptor has been read. How many bytes there are to send.
    [[nodiscard]] virtual std::uint64_t begin() = 0;
    /// A part of the data is in the NIC's memory now.
    virtual void fetched(std::uint64_t offset, std::uint64_t bytes) = 0;
    /// The sending host can see that all of it has left.
    virtual void sent() = 0;

    // At the receiving NIC.
    /// Its descriptor has been read. False: it has no place, and is not stored.
    [[nodiscard]] virtual bool match() = 0;
    /// A part of the data is in the host's memory now.
    virtual void stored(std::uint64_t offset, std::uint64_t bytes) = 0;
    /// The receiving host can see that all of it is there. Also called when it had no place.
    virtual void received() = 0;
};

}  // namespace via::sim
