// SPDX-License-Identifier: BSD-3-Clause
#include "completion.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace via::tool {
namespace {

/// What may stand at a place of the command line, and what it means.
struct Word {
    std::string text;
    std::string meaning;
};

/// A command, by the words that lead to it.
struct Place {
    std::string path;
    std::vector<Word> words;                                    ///< commands, options, values
    std::vector<std::pair<std::string, std::vector<Word>>> of;  ///< values of each option
};

/// The values among which an option chooses. Its type says them: TEXT:{this,that}.
std::vector<Word> values_of(const CLI::Option& option) {
    std::vector<Word> values;
    const std::string type = option.get_type_name();
    const std::size_t open = type.find('{');
    const std::size_t close = type.find('}', open);
    if (open == std::string::npos || close == std::string::npos) return values;
    std::string_view rest = std::string_view(type).substr(open + 1, close - open - 1);
    for (;;) {
        const std::size_t comma = rest.find(',');
        values.push_back({std::string(rest.substr(0, comma)), {}});
        if (comma == std::string_view::npos) return values;
        rest.remove_prefix(comma + 1);
    }
}

void add_option(Place& place, const CLI::Option& option) {
    std::vector<Word> values = values_of(option);
    if (option.get_positional()) {
        place.words.insert(place.words.end(), values.begin(), values.end());
        return;
    }
    for (const std::string& name : option.get_lnames()) {
        place.words.push_back({"--" + name, option.get_description()});
        // After one that takes a value nothing else can stand, known or not.
        if (option.get_items_expected_max() > 0) place.of.emplace_back("--" + name, values);
    }
}

void add_places(std::vector<Place>& places, const CLI::App& app, const std::string& before) {
    Place place;
    place.path = before + app.get_name();
    const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
    for (const CLI::App* command : commands)
        place.words.push_back({command->get_name(), command->get_description()});
    for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; }))
        add_option(place, *option);
    const std::string path = place.path + " ";
    places.push_back(std::move(place));
    for (const CLI::App* command : commands)
        add_places(places, *command, path);
}

std::vector<Place> places_of(const CLI::App& app) {
    std::vector<Place> places;
    add_places(places, app, "");
    return places;
}

/// As one word of a shell.
std::string in_quotes(std::string_view text) {
    std::string result = "'";
    for (const char one : text)
        if (one == '\'')
            result += "'\\''";
        else
            result += one;
    return result + "'";
}

std::string joined(const std::vector<Word>& words) {
    std::string result;
    for (const Word& word : words)
        result += (result.empty() ? "" : " ") + word.text;
    return in_quotes(result);
}

/// For zsh: 'word:meaning', as _describe wants it.
std::string described(const std::vector<Word>& words) {
    const auto escaped = [](std::string_view text) {
        std::string result;
        for (const char one : text) {
            if (one == ':' || one == '\\') result += '\\';
            result += one;
        }
        return result;
    };
    std::string result;
    for (const Word& word : words)
        result += (result.empty() ? "" : " ") +
                  in_quotes(escaped(word.text) +
                            (word.meaning.empty() ? "" : ":" + escaped(word.meaning)));
    return result;
}

/// The commands that are not the program itself, for a `case`.
std::string command_paths(const std::vector<Place>& places) {
    std::string result;
    for (std::size_t i = 1; i < places.size(); ++i)
        result += (i == 1 ? "" : " | ") + in_quotes(places[i].path);
    return result;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
    const std::vector<Place> places = places_of(app);
    std::string text = fmt::format(
        "# bash completion for {0}, written by `{0} completion bash`\n"
        "_{0}() {{\n"
        "    local path={0} words='' i\n"
        "    for ((i = 1; i < COMP_CWORD; ++i)); do\n"
        "        case \"$path ${{COMP_WORDS[i]}}\" in\n"
        "        {1}) path+=\" ${{COMP_WORDS[i]}}\" ;;\n"
        "        esac\n"
        "    done\n"
        "    case \"$path ${{COMP_WORDS[COMP_CWORD - 1]}}\" in\n",
        app.get_name(), command_paths(places));
    for (const Place& place : places)
        for (const auto& [option, values] : place.of)
            text += fmt::format("    {}) words={} ;;\n", in_quotes(place.path + " " + option),
                                joined(values));
    text +=
        "    *)\n"
        "        case \"$path\" in\n";
    for (const Place& place : places)
        text +=
            fmt::format("        {}) words={} ;;\n", in_quotes(place.path), joined(place.words));
    return text + fmt::format(
                      "        esac\n"
                      "        ;;\n"
                      "    esac\n"
                      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
                      "\"${{COMP_WORDS[COMP_CWORD]}}\")\n"
                      "}}\n"
                      "complete -o default -F _{0} {0}\n",
                      app.get_name());
}

std::string zsh_completion(const CLI::App& app) {
    const std::vector<Place> places = places_of(app);
    std::string text = fmt::format(
        "#compdef {0}\n"
        "# zsh completion for {0}, written by `{0} completion zsh`\n"
        "_{0}() {{\n"
        "    local place={0} i\n"
        "    local -a candidates\n"
        "    for ((i = 2; i < CURRENT; ++i)); do\n"
        "        case \"$place ${{words[i]}}\" in\n"
        "        ({1}) place+=\" ${{words[i]}}\" ;;\n"
        "        esac\n"
        "    done\n"
        "    case \"$place ${{words[CURRENT-1]}}\" in\n",
        app.get_name(), command_paths(places));
    for (const Place& place : places)
        for (const auto& [option, values] : place.of)
            text += fmt::format("    ({}) candidates=({}) ;;\n",
                                in_quotes(place.path + " " + option), described(values));
    text +=
        "    (*)\n"
        "        case \"$place\" in\n";
    for (const Place& place : places)
        text += fmt::format("        ({}) candidates=({}) ;;\n", in_quotes(place.path),
                            described(place.words));
    return text + fmt::format(
                      "        esac\n"
                      "        ;;\n"
                      "    esac\n"
                      "    if (( $#candidates )); then\n"
                      "        _describe {0} candidates && return\n"
                      "    fi\n"
                      "    _files\n"
                      "}}\n"
                      "_{0} \"$@\"\n",
                      app.get_name());
}

}  // namespace via::tool
