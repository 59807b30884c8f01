// SPDX-License-Identifier: BSD-3-Clause
#include "mvich/message_settings.hpp"

#include <algorithm>
#include <string>

#include "base/settings.hpp"
#include "mvich/credits.hpp"
#include "mvich/packet.hpp"

namespace via::mvich {
namespace {

/// Longest packet inside a host: copies of both ends overlap best in portions of this size.
constexpr std::uint32_t in_place_packet_bytes = 16384 + max_packet_head_bytes;
/// Credits inside a host, unless a number is wanted.
constexpr std::uint32_t in_place_window = 256;
/// Credits between hosts in the beginning, unless a number is wanted.
constexpr std::uint32_t first_credits = 4;
/// RDMA in portions, so that progress is seen.
constexpr std::uint64_t most_rdma_bytes = 1U << 30;

}  // namespace

LaneAbilities MessageSettings::abilities(bool in_place, bool one_copy, std::uint32_t longest_packet,
                                         std::uint64_t longest_transfer) const noexcept {
    LaneAbilities abilities;
    abilities.in_place = in_place;
    abilities.one_copy = one_copy;
    abilities.packet_bytes =
        in_place ? std::min(in_place_packet_bytes, longest_packet) : vbuf_bytes;
    abilities.eager_bytes = vbuf_bytes - static_cast<std::uint32_t>(max_packet_head_bytes);
    abilities.rdma_bytes = std::min(longest_transfer, most_rdma_bytes);
    abilities.rdma_read = true;
    abilities.rdma_write = true;
    return abilities;
}

std::uint32_t MessageSettings::window(bool in_place) const noexcept {
    const std::uint32_t wanted = credits + credit_preserve;
    return in_place && !credits_were_set ? std::max(wanted, in_place_window) : wanted;
}

std::uint32_t MessageSettings::first_window(bool in_place) const noexcept {
    const std::uint32_t whole = window(in_place);
    return in_place || credits_were_set ? whole : std::min(whole, first_credits + credit_preserve);
}

base::Result<MessageSettings> MessageSettings::read() {
    const base::Settings& settings = base::Settings::get();
    const auto number = [&](const char* name) {
        return static_cast<std::uint32_t>(settings.number(name));
    };
    MessageSettings result;
    for (const base::SettingValue& value : settings.values()) {
        const std::string name(value.declaration->name);
        // A program whose messages go another way than it says must not start.
        if (!value.problem.empty() && (name.starts_with("VIA_MPI_") || name == "VIA_PROGRESS"))
            return base::Result<MessageSettings>(
                base::Code::InvalidArgument,
                value.problem.substr(0, value.problem.rfind("; using ")));  // nothing is used
        if (name == "VIA_MPI_CREDITS")
            result.credits_were_set = value.origin != base::SettingOrigin::Default;
    }
    result.vbuf_bytes = number("VIA_MPI_VBUF_BYTES");
    result.credits = number("VIA_MPI_CREDITS");
    result.credit_preserve =
        std::max(1U, std::min(number("VIA_MPI_CREDIT_PRESERVE"), result.credits));
    result.piggyback = settings.flag("VIA_MPI_PIGGYBACK");
    result.vbufs_per_region = number("VIA_MPI_VBUFS_PER_REGION");
    result.vbuf_regions = number("VIA_MPI_VBUF_REGIONS");
    result.cache_entries = number("VIA_MPI_CACHE_ENTRIES");
    result.connect_milliseconds = settings.number("VIA_MPI_CONNECT_MS");
    result.protocol.eager_bytes = settings.number("VIA_MPI_EAGER_BYTES");
    result.protocol.rdma_bytes = settings.number("VIA_MPI_RDMA_BYTES");
    result.protocol.one_copy_bytes = settings.number("VIA_MPI_ONE_COPY_BYTES");
    result.protocol.forced = forced_protocol(settings.text("VIA_MPI_PROTOCOL"));
    if (auto checked = result.check(); !checked) return std::move(checked).error();
    return result;
}

base::Result<void> MessageSettings::check() const {
    const std::uint64_t most = vbuf_bytes - max_packet_head_bytes;
    if (protocol.eager_bytes > most)
        return base::Result<void>(
            base::Code::InvalidArgument,
            "VIA_MPI_EAGER_BYTES is " + std::to_string(protocol.eager_bytes) +
                ", but a message that is sent at once must fit into a vbuf: at most " +
                std::to_string(most) + " with VIA_MPI_VBUF_BYTES=" + std::to_string(vbuf_bytes));
    // Those for noops and the first packet, twice, as two ends that ask each other have two VIs for
    // a moment; a window of control packets and one; what goes out.
    const std::uint64_t needed =
        2 * (CreditAccount::noop_vbufs(credit_preserve) + std::uint64_t{1}) + credit_preserve + 1 +
        vbufs_for_sending;
    const std::uint64_t vbufs = std::uint64_t{vbufs_per_region} * vbuf_regions;
    if (vbufs < needed)
        return base::Result<void>(
            base::Code::InvalidArgument,
            "VIA_MPI_VBUFS_PER_REGION=" + std::to_string(vbufs_per_region) +
                " and VIA_MPI_VBUF_REGIONS=" + std::to_string(vbuf_regions) + " allow " +
                std::to_string(vbufs) + " vbufs, but one connection needs at least " +
                std::to_string(needed) +
                " with VIA_MPI_CREDIT_PRESERVE=" + std::to_string(credit_preserve));
    return {};
}

}  // namespace via::mvich
