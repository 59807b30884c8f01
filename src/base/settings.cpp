// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/fd.hpp"
#include "base/log.hpp"
#include "base/result.hpp"

namespace via::base {
namespace {

constexpr std::string_view prefix = "VIA_";
constexpr std::size_t largest_file = std::size_t{1} << 20;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower_case(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), lower);
    return result;
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blank = " \t\r\v\f";
    const std::size_t first = text.find_first_not_of(blank);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// For warnings: input may be any bytes and of any length, a terminal wants neither.
std::string shown(std::string_view text) {
    constexpr std::size_t longest = 80;
    std::string result;
    for (const char c : text.substr(0, longest))
        result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    if (text.size() > longest) result += "...";
    return result;
}

std::vector<std::string_view> choices_of(const SettingDeclaration& declaration) {
    std::vector<std::string_view> result;
    std::string_view rest = declaration.choices;
    for (;;) {
        const std::size_t bar = rest.find('|');
        result.push_back(rest.substr(0, bar));
        if (bar == std::string_view::npos) return result;
        rest.remove_prefix(bar + 1);
    }
}

std::optional<std::uint64_t> parse_flag(std::string_view text) {
    const std::string word = lower_case(text);
    if (word == "1" || word == "yes" || word == "on" || word == "true") return 1;
    if (word == "0" || word == "no" || word == "off" || word == "false") return 0;
    return std::nullopt;
}

std::optional<std::uint64_t> parse_number(std::string_view text, bool with_suffix) {
    unsigned shift = 0;
    if (with_suffix && !text.empty()) {
        switch (lower(text.back())) {
            case 'k':
                shift = 10;
                break;
            case 'm':
                shift = 20;
                break;
            case 'g':
                shift = 30;
                break;
            default:
                break;
        }
        if (shift != 0) text.remove_suffix(1);
    }
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stopped_at, failure] = std::from_chars(text.data(), end, value);
    if (failure != std::errc() || stopped_at != end || text.empty()) return std::nullopt;
    if (value > (~std::uint64_t{0} >> shift)) return std::nullopt;
    return value << shift;
}

std::string with_suffix(std::uint64_t bytes) {
    constexpr std::string_view suffixes = "kmg";
    std::string suffix;
    for (std::size_t i = 0; i < suffixes.size() && bytes != 0 && bytes % 1024 == 0; ++i) {
        bytes /= 1024;
        suffix = suffixes[i];
    }
    return std::to_string(bytes) + suffix;
}

/// Takes over `given` if the declaration allows it.
bool assign(SettingValue& value, std::string_view given) {
    const SettingDeclaration& declaration = *value.declaration;
    std::optional<std::uint64_t> number;
    switch (declaration.kind) {
        case SettingKind::Text:
            value.text = given;
            return true;
        case SettingKind::Choice: {
            const std::string word = lower_case(given);
            const auto choices = choices_of(declaration);
            if (std::find(choices.begin(), choices.end(), word) == choices.end()) return false;
            value.text = word;
            return true;
        }
        case SettingKind::Flag:
            number = parse_flag(given);
            if (!number) return false;
            value.number = *number;
            value.text = *number != 0 ? "1" : "0";
            return true;
        case SettingKind::Number:
        case SettingKind::Bytes:
            break;
    }
    number = parse_number(given, declaration.kind == SettingKind::Bytes);
    if (!number || *number < declaration.minimum || *number > declaration.maximum) return false;
    if (declaration.power_of_two && !std::has_single_bit(*number)) return false;
    value.number = *number;
    value.text = given;
    return true;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
        }
    }
    return row.back();
}

/// The declared name that was most likely meant; empty if none is near.
std::string_view nearest_name(std::string_view unknown) {
    constexpr std::size_t longest = 64;  // keeps a hostile file from costing quadratic time
    if (unknown.size() > longest) return {};
    std::string word(unknown);
    std::transform(word.begin(), word.end(), word.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    if (word.starts_with(prefix)) word.erase(0, prefix.size());
    std::string_view nearest;
    std::size_t least = std::max<std::size_t>(2, word.size() / 2) + 1;
    for (const SettingDeclaration& declaration : setting_declarations()) {
        const std::string_view known = declaration.name.substr(prefix.size());
        // Leaving the last words out is one mistake, however long they are.
        const std::size_t distance = known.starts_with(word + "_") ? 1 : edit_distance(word, known);
        if (distance < least) {
            least = distance;
            nearest = declaration.name;
        }
    }
    return nearest;
}

std::string unknown_name(std::string_view name, const std::string& where) {
    std::string sentence = where + ": there is no setting " + shown(name);
    if (const std::string_view nearest = nearest_name(name); !nearest.empty())
        return sentence + "; the nearest name is " + std::string(nearest);
    return sentence + "; `via config` lists all";
}

std::string home_directory() {
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
    std::vector<char> buffer(16384);
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
        found != nullptr && found->pw_dir != nullptr)
        return found->pw_dir;
    return {};
}

std::vector<std::string> default_files(bool trusted_environment) {
    std::vector<std::string> result;
    if (trusted_environment) {
        const char* config_home = std::getenv("XDG_CONFIG_HOME");
        if (config_home != nullptr && *config_home == '/')
            result.push_back(std::string(config_home) + "/viaduct/viaduct.conf");
        else if (const std::string home = home_directory(); !home.empty())
            result.push_back(home + "/.config/viaduct/viaduct.conf");
    }
    result.emplace_back("/etc/viaduct.conf");
    return result;
}

LogLevel level_of(std::string_view name) {
    if (name == "silent") return LogLevel::Silent;
    if (name == "error") return LogLevel::Error;
    if (name == "info") return LogLevel::Info;
    if (name == "debug") return LogLevel::Debug;
    return LogLevel::Warning;
}

Settings read_for_this_process() {
    // A set-uid program must not let its caller choose files to read and programs to start.
    const bool trusted_environment = getauxval(AT_SECURE) == 0;
    std::vector<std::string> environment;
    std::string named_file;
    for (char** entry = environ; trusted_environment && entry != nullptr && *entry != nullptr;
         ++entry) {
        const std::string_view text(*entry);
        if (!text.starts_with(prefix)) continue;
        environment.emplace_back(text);
        if (text.starts_with("VIA_CONFIG=")) named_file = text.substr(text.find('=') + 1);
    }
    std::vector<std::string> candidates;
    if (named_file.empty())
        candidates = default_files(trusted_environment);
    else
        candidates.push_back(named_file);

    std::vector<std::string> problems;
    std::string file_text;
    std::string file_name;
    for (const std::string& candidate : candidates) {
        auto text = read_settings_file(candidate);
        if (text) {
            file_text = std::move(text).value();
            file_name = candidate;
            break;
        }
        if (text.error().code == Code::NotFound && named_file.empty()) continue;
        problems.push_back(text.error().sentence);
    }
    Settings settings = Settings::read(environment, file_text, file_name);
    set_log_level(level_of(settings.text("VIA_LOG")));
    for (const std::string& problem : problems)
        log(LogLevel::Warning, problem);
    for (const std::string& warning : settings.warnings())
        log(LogLevel::Warning, warning);
    return settings;
}

}  // namespace

std::string allowed_values(const SettingDeclaration& declaration) {
    switch (declaration.kind) {
        case SettingKind::Text:
            return "any text";
        case SettingKind::Flag:
            return "0 or 1";
        case SettingKind::Choice: {
            const auto choices = choices_of(declaration);
            std::string result(choices.front());
            for (std::size_t i = 1; i < choices.size(); ++i) {
                result += i + 1 == choices.size() ? " or " : ", ";
                result += choices[i];
            }
            return result;
        }
        case SettingKind::Number:
        case SettingKind::Bytes:
            break;
    }
    const bool bytes = declaration.kind == SettingKind::Bytes;
    std::string result =
        bytes ? with_suffix(declaration.minimum) + " to " + with_suffix(declaration.maximum)
              : std::to_string(declaration.minimum) + " to " + std::to_string(declaration.maximum);
    if (declaration.power_of_two) result += ", a power of two";
    return result;
}

Result<std::string> read_settings_file(const std::string& path) {
    UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) {
        const int failure = errno;
        Error error = system_error(failure, "cannot read the settings file " + path);
        if (failure == ENOENT || failure == ENOTDIR) error.code = Code::NotFound;
        return error;
    }
    std::string text;
    char buffer[4096];
    for (;;) {
        const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return system_error(errno, "cannot read the settings file " + path);
        if (count == 0) return text;
        text.append(buffer, static_cast<std::size_t>(count));
        if (text.size() > largest_file)
            return Result<std::string>(
                Code::InvalidArgument,
                "the settings file " + path + " is longer than 1 MiB and is not read");
    }
}

std::string user_settings_file() {
    if (const char* named = std::getenv("VIA_CONFIG"); named != nullptr && *named != '\0')
        return named;
    const std::vector<std::string> files = default_files(true);
    // The last is the system's.
    return files.size() > 1 ? files.front() : std::string();
}

const Settings& Settings::get() {
    // Never destroyed: threads may still ask while the process exits.
    static const Settings& settings = *new Settings(read_for_this_process());
    return settings;
}

Settings Settings::read(const std::vector<std::string>& environment, std::string_view file_text,
                        std::string_view file_name) {
    Settings settings;
    settings.values_.reserve(setting_declarations().size());
    for (const SettingDeclaration& declaration : setting_declarations()) {
        SettingValue value{&declaration, {}, 0, SettingOrigin::Default, {}};
        assign(value, declaration.default_value);
        settings.values_.push_back(std::move(value));
    }
    settings.file_name_ = file_name;
    settings.read_file_text(file_text, file_name);
    for (const std::string& entry : environment) {
        const std::string_view text(entry);
        const std::size_t equals = text.find('=');
        if (!text.starts_with(prefix) || equals == std::string_view::npos) continue;
        settings.take(text.substr(0, equals), text.substr(equals + 1), SettingOrigin::Environment,
                      "the environment");
    }
    const std::uint64_t small_ring = settings.number("VIA_PD_SMALL_RING");
    settings.make_fit("VIA_PD_LOW_WATER", "VIA_PD_SMALL_RING", small_ring - 1, small_ring / 4);
    const std::uint64_t part = settings.number("VIA_SHM_RING_BYTES") / 4;
    settings.make_fit("VIA_SHM_CHUNK_BYTES", "a quarter of VIA_SHM_RING_BYTES", part, part);
    return settings;
}

void Settings::read_file_text(std::string_view file_text, std::string_view file_name) {
    std::size_t line_number = 0;
    while (!file_text.empty()) {
        const std::size_t end = file_text.find('\n');
        std::string_view line = file_text.substr(0, end);
        file_text.remove_prefix(end == std::string_view::npos ? file_text.size() : end + 1);
        ++line_number;
        // A comment is a '#' at the start or after a blank, so that a path may contain one.
        for (std::size_t i = line.find('#'); i != std::string_view::npos;
             i = line.find('#', i + 1)) {
            if (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t') {
                line = line.substr(0, i);
                break;
            }
        }
        line = trimmed(line);
        if (line.empty()) continue;
        const std::string where = std::string(file_name) + ":" + std::to_string(line_number);
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos) {
            warnings_.push_back(where + ": expected NAME=value, found '" + shown(line) + "'");
            continue;
        }
        const std::string_view name = trimmed(line.substr(0, equals));
        if (name == "VIA_CONFIG") {
            warnings_.push_back(where + ": VIA_CONFIG has a meaning only in the environment");
            continue;
        }
        take(name, trimmed(line.substr(equals + 1)), SettingOrigin::File, where);
    }
}

void Settings::take(std::string_view name, std::string_view given, SettingOrigin origin,
                    const std::string& where) {
    SettingValue* value = find_mutable(name);
    if (value == nullptr) {
        warnings_.push_back(unknown_name(name, where));
        return;
    }
    // As with other programs, an empty variable is one that is not set.
    if (given.empty() && value->declaration->kind != SettingKind::Text) return;
    value->problem.clear();
    if (assign(*value, given)) {
        value->origin = origin;
        return;
    }
    assign(*value, value->declaration->default_value);
    value->origin = SettingOrigin::Default;
    value->problem = where + ": " + std::string(name) + " can not be '" + shown(given) +
                     "'; allowed: " + allowed_values(*value->declaration) + "; using " +
                     std::string(value->declaration->default_value);
    warnings_.push_back(value->problem);
}

/// Two settings that are right by themselves may contradict each other.
void Settings::make_fit(std::string_view name, std::string_view of, std::uint64_t limit,
                        std::uint64_t fitting) {
    SettingValue* value = find_mutable(name);
    if (value == nullptr || value->number <= limit) return;
    const bool bytes = value->declaration->kind == SettingKind::Bytes;
    const std::string chosen = bytes ? with_suffix(fitting) : std::to_string(fitting);
    if (value->origin != SettingOrigin::Default) {
        value->problem = std::string(name) + "=" + value->text + " is too large for " +
                         std::string(of) + "; using " + chosen;
        warnings_.push_back(value->problem);
    }
    value->number = fitting;
    value->text = chosen;
    value->origin = SettingOrigin::Default;
}

bool Settings::flag(std::string_view name) const {
    return find(name).number != 0;
}

std::uint64_t Settings::number(std::string_view name) const {
    return find(name).number;
}

const std::string& Settings::text(std::string_view name) const {
    return find(name).text;
}

const SettingValue& Settings::find(std::string_view name) const {
    for (const SettingValue& value : values_)
        if (value.declaration->name == name) return value;
    static const SettingDeclaration nothing{"", SettingKind::Text, "", 0, 0, "", ""};
    static const SettingValue& none =
        *new SettingValue{&nothing, "", 0, SettingOrigin::Default, ""};
    log(LogLevel::Error, "a setting was asked for that is not declared: " + std::string(name));
    return none;
}

SettingValue* Settings::find_mutable(std::string_view name) {
    for (SettingValue& value : values_)
        if (value.declaration->name == name) return &value;
    return nullptr;
}

}  // namespace via::base
