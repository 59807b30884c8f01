// SPDX-License-Identifier: BSD-3-Clause
// Any bytes as a datagram between kernel agents, and as what is sealed in one: refused, or written
// again as they were.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "ka/setup_body.hpp"
#include "wire/setup_message.hpp"

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace via;
    const wire::ByteView bytes(data, size);
    if (const auto message = wire::decode_setup(bytes)) {
        wire::Bytes again;
        if (message->version != wire::setup_version)
            again.assign(bytes.begin(), bytes.end());
        else if (message->kind == wire::SetupKind::Hello)
            again = wire::encode_hello(message->key, message->nonce);
        else if (message->kind == wire::SetupKind::Challenge)
            again = wire::encode_challenge(message->key, message->nonce, message->cookie);
        else if (message->kind == wire::SetupKind::Refusal)
            again = wire::encode_refusal(message->key, message->nonce, message->reason);
        else
            require(message->header.size() + message->sealed.size() == size);
        // Two bytes of a Refusal may differ in other versions.
        if (!again.empty() && message->kind != wire::SetupKind::Refusal)
            require(std::ranges::equal(again, bytes));
        if (wire::is_sealed(message->kind))
            (void)wire::open_sealed(wire::cluster_key(""), *message);
    }
    if (const auto request = ka::decode_setup_request(bytes)) {
        require(request->addresses.size() <= ka::SetupRequest::max_addresses);
        require(request->offer.fabric == ka::fabric_net);
        // Not the same bytes (zeros need not travel), but the same meaning.
        const auto again = ka::decode_setup_request(ka::encode(*request));
        require(again && again->offer.parameters == request->offer.parameters &&
                again->offer.local == request->offer.local &&
                again->addresses == request->addresses);
    }
    if (const auto outcome = ka::decode_setup_outcome(bytes)) {
        require(outcome->state != ka::SetupOutcome::State::Failed ||
                !outcome->error.sentence.empty());
        const auto again = ka::decode_setup_outcome(ka::encode(*outcome));
        require(again && again->state == outcome->state &&
                again->error.sentence == outcome->error.sentence);
    }
    return 0;
}
