// SPDX-License-Identifier: BSD-3-Clause
// Whatever a process sends to the kernel agent: it is refused, or it is exactly what an honest
// process would have sent.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <variant>

#include "ka/protocol.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span message(reinterpret_cast<const std::byte*>(data), size);
    const auto decoded = via::ka::decode_request(message);
    if (!decoded) {
        if (decoded.error().sentence.empty()) std::abort();
        return 0;
    }
    const via::ka::Request& request = decoded.value();
    std::visit(
        [&](const auto& body) {
            const auto again = via::ka::encode(request.id, body);
            if (!std::equal(again.begin(), again.end(), message.begin(), message.end()))
                std::abort();
        },
        request.body);
    return 0;
}
