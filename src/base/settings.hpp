// SPDX-License-Identifier: BSD-3-Clause
// Every setting of Viaduct: VIA_* environment variables and one optional file, declared in one
// table (settings_table.cpp) from which the documentation, `via config` and the warning about an
// unknown name are made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace via::base {

enum class SettingKind { Flag, Number, Bytes, Choice, Text };
enum class SettingOrigin { Default, File, Environment };

struct SettingDeclaration {
    std::string_view name;  ///< "VIA_SHM_RING_BYTES"
    SettingKind kind;
    std::string_view default_value;  ///< as a user would write it
    std::uint64_t minimum;           ///< Number and Bytes
    std::uint64_t maximum;
    std::string_view choices;   ///< Choice: "auto|kmem|cma|ring"
    std::string_view meaning;   ///< one sentence for the documentation
    bool power_of_two = false;  ///< Number and Bytes
    bool secret = false;        ///< the value is shown to nobody
};

struct SettingValue {
    const SettingDeclaration* declaration;
    std::string text;
    std::uint64_t number = 0;  ///< Flag, Number, Bytes
    SettingOrigin origin = SettingOrigin::Default;
    std::string
        problem;  ///< why a given value was refused (the default is used then); empty if none
};

[[nodiscard]] const std::vector<SettingDeclaration>& setting_declarations();
/// What a user may write: "4k to 16m, a power of two", "auto, kmem, cma or ring", ...
[[nodiscard]] std::string allowed_values(const SettingDeclaration& declaration);

/// The settings file of this user, whether it exists or not: VIA_CONFIG, else the one in the user's
/// configuration folder. Empty: the user has no home.
[[nodiscard]] std::string user_settings_file();

/// The text of such a file. NotFound: there is none.
[[nodiscard]] Result<std::string> read_settings_file(const std::string& path);

/// All settings as they hold in this process: read once, at first use.
class Settings {
  public:
    [[nodiscard]] static const Settings& get();
    /// For tests and tools: from the given environment ("NAME=value") and file text.
    [[nodiscard]] static Settings read(const std::vector<std::string>& environment,
                                       std::string_view file_text, std::string_view file_name);

    [[nodiscard]] bool flag(std::string_view name) const;
    [[nodiscard]] std::uint64_t number(std::string_view name) const;
    [[nodiscard]] const std::string& text(std::string_view name) const;
    [[nodiscard]] const std::vector<SettingValue>& values() const { return values_; }
    /// The settings file that was read; empty if there is none.
    [[nodiscard]] const std::string& file_name() const { return file_name_; }
    /// Sentences about unknown names (with the nearest known one) and refused values.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  private:
    [[nodiscard]] const SettingValue& find(std::string_view name) const;
    [[nodiscard]] SettingValue* find_mutable(std::string_view name);
    void read_file_text(std::string_view file_text, std::string_view file_name);
    void take(std::string_view name, std::string_view given, SettingOrigin origin,
              const std::string& where);
    void make_fit(std::string_view name, std::string_view of, std::uint64_t limit,
                  std::uint64_t fitting);
    std::vector<SettingValue> values_;
    std::vector<std::string> warnings_;
    std::string file_name_;
};

}  // namespace via::base
