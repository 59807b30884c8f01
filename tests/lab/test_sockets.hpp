// SPDX-License-Identifier: BSD-3-Clause
// Sockets of lab hosts that one test thread uses together, so that nothing depends on timing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "lab/lab.hpp"

namespace via::lab::test {

/// A UDP socket in a host, bound to its address on a link, with room for all a test sends.
class HostSocket {
  public:
    HostSocket(const Lab& lab, const std::string& host, unsigned link, bool ipv6 = false);

    [[nodiscard]] bool good() const { return fd_.valid(); }
    [[nodiscard]] int fd() const { return fd_.get(); }
    void connect_to(const HostSocket& other);
    /// The error number of a send; 0: it was taken. `numbers` are the first eight bytes of each.
    [[nodiscard]] int send(std::uint64_t number, std::size_t bytes = 100);
    /// As one train, cut into packets of `bytes` by the kernel.
    [[nodiscard]] int send_train(std::uint64_t first, std::size_t count, std::size_t bytes);

    struct Datagram {
        std::uint64_t number = 0;
        bool intact = true;  ///< every byte is what send() wrote
        std::size_t bytes = 0;
    };
    [[nodiscard]] std::optional<Datagram> receive(base::Deadline deadline);
    /// Until `last` has come; the list ends with it. Without it if it does not come in time.
    [[nodiscard]] std::vector<Datagram> receive_until(std::uint64_t last);

  private:
    base::UniqueFd fd_;
    std::string address_;
    bool ipv6_;
};

[[nodiscard]] inline base::Deadline patience() {
    return base::Deadline::after_milliseconds(20'000);
}
/// For what must not come: a moment that a packet would not need.
[[nodiscard]] inline base::Deadline a_moment() {
    return base::Deadline::after_milliseconds(100);
}

}  // namespace via::lab::test
