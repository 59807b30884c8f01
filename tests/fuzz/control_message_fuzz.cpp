// SPDX-License-Identifier: BSD-3-Clause
// The other side of a measurement may be any process. Whatever it says, terms that are accepted
// lie within their limits and survive being said again.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "control_message.hpp"
#include "terms.hpp"
#include "text_table.hpp"

using namespace via::tool;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto message =
        decode_message(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!message) {
        require(printable(message.error().sentence) == message.error().sentence);
        return 0;
    }
    (void)number_member(message.value(), "count");
    if (const auto terms = session_terms_from(message.value())) {
        require(terms.value().idle_vis <= most_idle_vis);
        require(session_terms_from(to_json(terms.value())).ok());
    }
    if (const auto terms = test_terms_from(message.value())) {
        require(terms.value().bytes <= most_bytes);
        require(terms.value().window >= 1 && terms.value().window <= most_window);
        require(terms.value().buffers >= 1 && terms.value().buffers <= most_window);
        require(test_terms_from(to_json(terms.value())).ok());
    }
    return 0;
}
