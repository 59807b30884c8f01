// SPDX-License-Identifier: BSD-3-Clause
// The settings file and the environment are text from outside. Whatever they hold, every setting
// ends with a value that its declaration allows.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.hpp"

using namespace via::base;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

bool is_choice(const SettingDeclaration& declaration, const std::string& text) {
    return ("|" + std::string(declaration.choices) + "|").find("|" + text + "|") !=
           std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    // The part before the first zero byte is the file, each one after it an environment entry.
    const std::string_view file = input.substr(0, input.find('\0'));
    std::vector<std::string> environment;
    for (std::size_t at = file.size(); at < input.size();) {
        const std::size_t end = input.find('\0', at + 1);
        environment.emplace_back(input.substr(at + 1, end == input.npos ? end : end - at - 1));
        at = end == input.npos ? input.size() : end;
    }
    const Settings settings = Settings::read(environment, file, "fuzz.conf");

    require(settings.values().size() == setting_declarations().size());
    for (const SettingValue& value : settings.values()) {
        const SettingDeclaration& declaration = *value.declaration;
        switch (declaration.kind) {
            case SettingKind::Flag:
                require(value.number <= 1);
                break;
            case SettingKind::Choice:
                require(is_choice(declaration, value.text));
                break;
            case SettingKind::Text:
                break;
            case SettingKind::Number:
            case SettingKind::Bytes:
                require(value.number >= declaration.minimum);
                require(value.number <= declaration.maximum);
                if (declaration.power_of_two) require((value.number & (value.number - 1)) == 0);
                break;
        }
    }
    require(settings.number("VIA_PD_LOW_WATER") < settings.number("VIA_PD_SMALL_RING"));
    require(settings.number("VIA_SHM_CHUNK_BYTES") * 4 <= settings.number("VIA_SHM_RING_BYTES"));
    return 0;
}
