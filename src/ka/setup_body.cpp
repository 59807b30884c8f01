// SPDX-License-Identifier: BSD-3-Clause
#include "ka/setup_body.hpp"

#include <algorithm>
#include <string>

namespace via::ka {
namespace {

using wire::ByteReader;
using wire::ByteView;
using wire::ByteWriter;

constexpr std::size_t max_sentence_bytes = 399;  // as much as a process can be told

void write(ByteWriter& writer, const NetAddress& address) {
    writer.number(address.host_bytes);
    writer.bytes(ByteView(address.host).first(address.host_bytes));
    writer.number(address.discriminator_bytes);
    writer.bytes(ByteView(address.discriminator).first(address.discriminator_bytes));
}

bool read(ByteReader& reader, NetAddress& address) {
    address.host_bytes = reader.number<std::uint8_t>();
    if (address.host_bytes > max_host_address_bytes) return false;
    std::ranges::copy(reader.take(address.host_bytes), address.host.begin());
    address.discriminator_bytes = reader.number<std::uint8_t>();
    if (address.discriminator_bytes > max_discriminator_bytes) return false;
    std::ranges::copy(reader.take(address.discriminator_bytes), address.discriminator.begin());
    return reader.ok();
}

void write(ByteWriter& writer, const ConnectOffer& offer) {
    writer.number(offer.fabric);
    write(writer, offer.local);
    write(writer, offer.remote);
    writer.number(offer.attributes.max_transfer_bytes);
    writer.number(offer.attributes.quality_of_service);
    writer.number(offer.attributes.reliability);
    writer.number(offer.attributes.rights);
    writer.number(offer.attributes.tag);
    writer.number(offer.attributes.flags);
    // Most devices need few of them; zeros at the end need not travel.
    std::size_t used = offer.parameters.size();
    while (used > 0 && offer.parameters[used - 1] == 0)
        --used;
    writer.number(static_cast<std::uint16_t>(used));
    writer.bytes(ByteView(offer.parameters).first(used));
}

bool read(ByteReader& reader, ConnectOffer& offer) {
    offer.fabric = reader.number<std::uint32_t>();
    if (offer.fabric != fabric_net) return false;
    if (!read(reader, offer.local) || !read(reader, offer.remote)) return false;
    offer.attributes.max_transfer_bytes = reader.number<std::uint64_t>();
    offer.attributes.quality_of_service = reader.number<std::uint64_t>();
    offer.attributes.reliability = reader.number<std::uint32_t>();
    offer.attributes.rights = reader.number<std::uint32_t>();
    offer.attributes.tag = reader.number<std::uint32_t>();
    offer.attributes.flags = reader.number<std::uint32_t>();
    if ((offer.attributes.rights & ~(right_rdma_write | right_rdma_read)) != 0) return false;
    if ((offer.attributes.flags & ~endpoint_any_tag) != 0) return false;
    const auto used = reader.number<std::uint16_t>();
    if (used > offer.parameters.size()) return false;
    std::ranges::copy(reader.take(used), offer.parameters.begin());
    return reader.ok();
}

}  // namespace

wire::Bytes encode(const SetupRequest& request) {
    ByteWriter writer;
    writer.number(static_cast<std::uint8_t>(request.purpose));
    writer.number(request.instance);
    writer.number(request.remaining_ns);
    writer.number(request.patience_ns);
    write(writer, request.offer);
    writer.number(request.port);
    const std::size_t count = std::min(request.addresses.size(), SetupRequest::max_addresses);
    writer.number(static_cast<std::uint8_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
        const AgentAddress& address = request.addresses[i];
        writer.number(address.family);
        writer.bytes(ByteView(address.ip).first(address.ip_bytes()));
    }
    return std::move(writer).written();
}

std::optional<SetupRequest> decode_setup_request(ByteView bytes) {
    ByteReader reader(bytes);
    SetupRequest request;
    const auto purpose = reader.number<std::uint8_t>();
    if (purpose != 1 && purpose != 2) return {};
    request.purpose = static_cast<SetupPurpose>(purpose);
    request.instance = reader.number<std::uint64_t>();
    request.remaining_ns = reader.number<std::uint64_t>();
    request.patience_ns = reader.number<std::uint64_t>();
    if (!read(reader, request.offer)) return {};
    request.port = reader.number<std::uint16_t>();
    const auto count = reader.number<std::uint8_t>();
    if (count > SetupRequest::max_addresses) return {};
    for (std::size_t i = 0; i < count; ++i) {
        AgentAddress address;
        address.family = reader.number<std::uint8_t>();
        address.port = request.port;
        if (!address.valid()) return {};
        std::ranges::copy(reader.take(address.ip_bytes()), address.ip.begin());
        request.addresses.push_back(undressed(address));
    }
    if (!reader.finished()) return {};
    return request;
}

wire::Bytes encode(const SetupOutcome& outcome) {
    ByteWriter writer;
    writer.number(static_cast<std::uint8_t>(outcome.state));
    if (outcome.state == SetupOutcome::State::Established) {
        write(writer, outcome.offer);
        writer.bytes(outcome.session_key);
        writer.number(outcome.connection);
    } else if (outcome.state == SetupOutcome::State::Failed) {
        const std::string& sentence = outcome.error.sentence;
        const std::size_t length = std::min(sentence.size(), max_sentence_bytes);
        writer.number(static_cast<std::uint8_t>(outcome.error.code));
        writer.number(static_cast<std::uint16_t>(length));
        writer.bytes({reinterpret_cast<const std::uint8_t*>(sentence.data()), length});
    }
    return std::move(writer).written();
}

std::optional<SetupOutcome> decode_setup_outcome(ByteView bytes) {
    ByteReader reader(bytes);
    SetupOutcome outcome;
    const auto state = reader.number<std::uint8_t>();
    if (state < 1 || state > 3) return {};
    outcome.state = static_cast<SetupOutcome::State>(state);
    if (outcome.state == SetupOutcome::State::Established) {
        if (!read(reader, outcome.offer)) return {};
        outcome.session_key = reader.array<std::tuple_size_v<SessionKey>>();
        outcome.connection = reader.number<std::uint64_t>();
        if (outcome.connection == 0) return {};
    } else if (outcome.state == SetupOutcome::State::Failed) {
        const auto code = reader.number<std::uint8_t>();
        const auto length = reader.number<std::uint16_t>();
        if (code > static_cast<std::uint8_t>(base::Code::System) || length > max_sentence_bytes)
            return {};
        const ByteView sentence = reader.take(length);
        outcome.error.code = static_cast<base::Code>(code);
        // It will be shown to people.
        for (const std::uint8_t byte : sentence)
            outcome.error.sentence += byte < 0x20 || byte == 0x7F ? '?' : static_cast<char>(byte);
        if (outcome.error.sentence.empty()) outcome.error.sentence = "the other host says no more";
    }
    if (!reader.finished()) return {};
    return outcome;
}

}  // namespace via::ka
