// SPDX-License-Identifier: BSD-3-Clause
#include "control_message.hpp"

#include <nlohmann/json.hpp>

#include "text_table.hpp"

namespace via::tool {

std::string encode_message(const nlohmann::json& message) {
    return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

base::Result<nlohmann::json> decode_message(std::string_view text) {
    auto message = nlohmann::json::parse(text, nullptr, false);
    const auto text_member = [&](const char* name) -> const std::string* {
        const auto found = message.find(name);
        return found == message.end() ? nullptr : found->get_ptr<const std::string*>();
    };
    if (!message.is_object() || text_member("kind") == nullptr)
        return {base::Code::ProtocolViolation,
                "the other side says something that this program does not understand"};
    if (*text_member("kind") == "error") {
        const std::string* sentence = text_member("sentence");
        return {base::Code::System,
                "the other side failed: " +
                    (sentence != nullptr ? printable(*sentence) : "without a word")};
    }
    return message;
}

std::uint64_t number_member(const nlohmann::json& message, const char* member) {
    if (!message.is_object()) return 0;
    const auto found = message.find(member);
    return found != message.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

}  // namespace via::tool
