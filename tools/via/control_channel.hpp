// SPDX-License-Identifier: BSD-3-Clause
// The connection over which the two sides talk about the measurement: small JSON messages on a VI
// of its own, so that it works on every device and disturbs no measured VI.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "vipl_objects.hpp"

namespace via::tool {

class ControlChannel {
  public:
    [[nodiscard]] static base::Result<ControlChannel> connect(const Nic& nic, Address& local,
                                                              Address& remote,
                                                              base::Deadline deadline);
    [[nodiscard]] static base::Result<ControlChannel> accept(const Nic& nic, Address& local,
                                                             base::Deadline deadline);

    [[nodiscard]] base::Result<void> send(const nlohmann::json& message, base::Deadline deadline);
    /// An object with a text "kind"; a message of the kind "error" comes back as that error.
    [[nodiscard]] base::Result<nlohmann::json> receive(base::Deadline deadline);
    /// The same, and it must be of this kind.
    [[nodiscard]] base::Result<nlohmann::json> expect(std::string_view kind,
                                                      base::Deadline deadline);

  private:
    // Before the VI in this order, because the VI must go first.
    Memory memory_;
    Vi vi_;

    static constexpr std::size_t slot_bytes = 8192;
    static constexpr std::size_t receives = 8;
    [[nodiscard]] static base::Result<ControlChannel> prepare(const Nic& nic);
    [[nodiscard]] VIP_DESCRIPTOR* descriptor(std::size_t slot) const;
    [[nodiscard]] std::byte* buffer(std::size_t slot) const;
    [[nodiscard]] base::Result<void> post_receive(std::size_t slot);
};

}  // namespace via::tool
