// SPDX-License-Identifier: BSD-3-Clause
// `via config`: every setting, its value and where that comes from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/settings.hpp"
#include "command.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

struct ConfigOptions {
    bool json = false;
    bool meanings = false;
    bool changed = false;
};

std::string_view kind_name(base::SettingKind kind) {
    switch (kind) {
        case base::SettingKind::Flag:
            return "flag";
        case base::SettingKind::Number:
            return "number";
        case base::SettingKind::Bytes:
            return "bytes";
        case base::SettingKind::Choice:
            return "choice";
        case base::SettingKind::Text:
            return "text";
    }
    return "?";
}

std::string_view origin_name(base::SettingOrigin origin) {
    switch (origin) {
        case base::SettingOrigin::Default:
            return "default";
        case base::SettingOrigin::File:
            return "file";
        case base::SettingOrigin::Environment:
            return "environment";
    }
    return "?";
}

/// Not what nobody else may know.
std::string shown_text(const base::SettingValue& value) {
    return value.declaration->secret && !value.text.empty() ? "(hidden)" : value.text;
}

bool shown(const base::SettingValue& value, const ConfigOptions& options) {
    return !options.changed || value.origin != base::SettingOrigin::Default ||
           !value.problem.empty();
}

nlohmann::json as_json(const base::Settings& settings, const ConfigOptions& options) {
    auto list = nlohmann::json::array();
    for (const base::SettingValue& value : settings.values()) {
        if (!shown(value, options)) continue;
        const base::SettingDeclaration& declaration = *value.declaration;
        nlohmann::json entry{{"name", declaration.name},
                             {"value", shown_text(value)},
                             {"default", declaration.default_value},
                             {"origin", origin_name(value.origin)},
                             {"kind", kind_name(declaration.kind)},
                             {"meaning", declaration.meaning}};
        if (declaration.kind == base::SettingKind::Choice) entry["choices"] = declaration.choices;
        if (declaration.kind == base::SettingKind::Number ||
            declaration.kind == base::SettingKind::Bytes) {
            entry["number"] = value.number;
            entry["minimum"] = declaration.minimum;
            entry["maximum"] = declaration.maximum;
        }
        if (!value.problem.empty()) entry["problem"] = value.problem;
        list.push_back(entry);
    }
    return {{"settings", list}, {"file", settings.file_name()}, {"warnings", settings.warnings()}};
}

void print_for_people(const base::Settings& settings, const ConfigOptions& options) {
    TextTable table;
    for (const char* title : {"setting", "value", "origin", "default"})
        table.add_column(title, Align::Left);
    if (options.meanings) table.add_column("meaning", Align::Left);
    for (const base::SettingValue& value : settings.values()) {
        if (!shown(value, options)) continue;
        const auto or_dash = [](std::string_view text) {
            return text.empty() ? std::string("-") : printable(text);
        };
        table.add_row({std::string(value.declaration->name), or_dash(shown_text(value)),
                       std::string(origin_name(value.origin)),
                       or_dash(value.declaration->default_value),
                       std::string(value.declaration->meaning)});
    }
    fmt::print("{}", table.draw());
    if (settings.file_name().empty())
        fmt::print("\nNo settings file is read.\n");
    else
        fmt::print("\nThe settings file is {}.\n", printable(settings.file_name()));
    for (const std::string& warning : settings.warnings())
        fmt::print("warning: {}\n", printable(warning));
}

}  // namespace

void add_config_command(CLI::App& app, int& status) {
    auto options = std::make_shared<ConfigOptions>();
    CLI::App* command =
        app.add_subcommand("config", "Show every setting, its value and where it comes from");
    command->add_flag("--json", options->json, "Print JSON");
    command->add_flag("--meanings,-m", options->meanings, "Also say what each setting means");
    command->add_flag("--changed", options->changed, "Only settings that are not at their default");
    command->callback([options, &status] {
        const base::Settings& settings = base::Settings::get();
        if (options->json)
            print_json(as_json(settings, *options));
        else
            print_for_people(settings, *options);
        status = status_good;
    });
}

}  // namespace via::tool
