// SPDX-License-Identifier: BSD-3-Clause
// An offer of interfaces comes from another host. Whatever it holds, it is refused or is one that
// leads our packets to hosts only, is written again as it was, and both ends make the same links of
// it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "na/net/pairing.hpp"

using namespace via::na::net;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // Two offers, the first as long as the first byte says.
    if (size < 1) return 0;
    const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
    const std::size_t cut = std::min<std::size_t>(std::size_t{data[0]} * 2, bytes.size());
    const auto a = decode_offer(bytes.first(cut));
    const auto b = decode_offer(bytes.subspan(cut));
    if (!a.ok()) return 0;
    require(a.value().entries.size() <= most_offered);
    for (const OfferedInterface& entry : a.value().entries) {
        require(entry.port != 0 && entry.mtu >= 1280 && (entry.mac[0] & 1) == 0);
        require(entry.loopback ||
                !(entry.family == Family::Ipv4 &&
                  (entry.address[0] == 127 || entry.address[0] == 0 || entry.address[0] >= 224)));
    }
    InterfaceOffer again = a.value();
    std::array<std::byte, most_offer_bytes> written;
    require(encode(again, written) == cut && again == a.value());
    require(std::equal(written.begin(), written.begin() + static_cast<long>(cut), bytes.begin()));
    if (!b.ok()) return 0;
    for (const bool alone : {true, false}) {
        const auto links = pair_interfaces(a.value(), b.value(), {.loopback_alone = alone});
        auto back = pair_interfaces(b.value(), a.value(), {.loopback_alone = alone});
        for (LinkPair& link : back)
            std::swap(link.a, link.b);
        require(links == back);
        require(links.size() <= most_offered);
    }
    return 0;
}
