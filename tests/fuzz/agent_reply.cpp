// SPDX-License-Identifier: BSD-3-Clause
// Whatever comes to a process over the agent's socket.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <variant>

#include "ka/protocol.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span message(reinterpret_cast<const std::byte*>(data), size);
    const auto decoded = via::ka::decode_reply(message);
    if (!decoded) {
        if (decoded.error().sentence.empty()) std::abort();
        return 0;
    }
    const via::ka::Reply& reply = decoded.value();
    std::visit(
        [&](const auto& body) {
            const auto again = via::ka::encode(reply.id, body);
            if (!std::equal(again.begin(), again.end(), message.begin(), message.end()))
                std::abort();
        },
        reply.body);
    // What is in range is used without another look.
    if (const auto* failure = std::get_if<via::ka::FailedReply>(&reply.body))
        if (via::base::code_name(via::ka::error_of(*failure).code) == "unknown") std::abort();
    return 0;
}
