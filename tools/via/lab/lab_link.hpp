// SPDX-License-Identifier: BSD-3-Clause
// A link of a lab, and everything that can be done to it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "link_state.hpp"

namespace via::lab {

struct LabOptions {
    std::string name = "lab";  ///< empty: one that nobody else has, for tests
    unsigned hosts = 2;
    unsigned links = 2;
    unsigned mtu = 1500;
    bool ipv6 = false;
};

/// One host's end of a link.
struct LinkEnd {
    std::string host;
    std::string device;
    std::string ipv4;
    std::string ipv6;      ///< empty: the lab has none
    std::string hardware;  ///< the Ethernet address
    bool up = false;       ///< switched on at this end
    bool carrier = false;  ///< and at the other
    unsigned mtu = 0;
    LinkState sends;             ///< what happens to what this host sends
    bool relay = false;          ///< there is one for what this host sends
    bool relay_missing = false;  ///< there should be one, but it has died
};

/// In all calls `from` is the host whose packets are meant; empty: those of all hosts.
class LabLink {
  public:
    LabLink(LabOptions lab, unsigned number) : lab_(std::move(lab)), number_(number) {}

    [[nodiscard]] unsigned number() const { return number_; }

    /// Switches the interface of `side` off or on; empty: of all hosts.
    [[nodiscard]] base::Result<void> down(std::string_view side = {}) const;
    [[nodiscard]] base::Result<void> up(std::string_view side = {}) const;
    /// Of all hosts.
    [[nodiscard]] base::Result<void> mtu(unsigned bytes) const;

    /// Bits per second; 0: no limit.
    [[nodiscard]] base::Result<void> rate(std::uint64_t bits, std::string_view from = {}) const;
    [[nodiscard]] base::Result<void> loss(PartsPerMillion share, std::string_view from = {}) const;
    [[nodiscard]] base::Result<void> duplicate(PartsPerMillion share,
                                               std::string_view from = {}) const;
    [[nodiscard]] base::Result<void> reorder(PartsPerMillion share,
                                             std::string_view from = {}) const;
    [[nodiscard]] base::Result<void> corrupt(PartsPerMillion share,
                                             std::string_view from = {}) const;
    [[nodiscard]] base::Result<void> delay(base::Nanoseconds delay,
                                           std::string_view from = {}) const;
    [[nodiscard]] base::Result<void> silent(bool on, std::string_view from = {}) const;
    /// Off: trains of packets are cut before they leave, so that chance meets each by itself.
    [[nodiscard]] base::Result<void> offload(bool on, std::string_view from = {}) const;

    /// Any of these at once.
    [[nodiscard]] base::Result<void> change(const std::function<void(LinkState&)>& how,
                                            std::string_view from = {}) const;

    [[nodiscard]] base::Result<std::vector<LinkEnd>> ends() const;
    [[nodiscard]] base::Result<LinkEnd> end(unsigned host) const;

  private:
    struct Place {
        std::string space;
        std::string device;
    };
    [[nodiscard]] base::Result<std::vector<unsigned>> hosts_meant(std::string_view name) const;
    [[nodiscard]] std::string space_of(unsigned host) const;
    /// Where what a host sends comes out of the wire.
    [[nodiscard]] Place far_end(unsigned host) const;
    [[nodiscard]] base::Result<void> switch_to(const char* state, std::string_view side) const;
    [[nodiscard]] base::Result<void> apply(unsigned host, const LinkEnd& end,
                                           const LinkState& wanted) const;
    [[nodiscard]] base::Result<void> end_relay_of(unsigned host) const;
    [[nodiscard]] base::Result<void> start_relay_of(unsigned host, const LinkEnd& end,
                                                    const LinkState& wanted) const;

    LabOptions lab_;
    unsigned number_;
};

}  // namespace via::lab
