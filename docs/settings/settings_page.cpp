// SPDX-License-Identifier: BSD-3-Clause
// Writes the manual page of all settings from their one table, in the form that docs/man takes.
#include <iostream>
#include <string>

#include "base/settings.hpp"

using namespace via::base;

namespace {

/// Markdown would take these for its own.
std::string plain(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '*' || c == '_' || c == '<' || c == '>' || c == '@' || c == '$' || c == '~')
            result += '\\';
        result += c;
    }
    return result;
}

void write_setting(const SettingDeclaration& declaration) {
    std::cout << "**" << plain(declaration.name) << "**";
    if (declaration.kind != SettingKind::Text)
        std::cout << " (" << allowed_values(declaration) << ")";
    std::cout << "\n: " << plain(declaration.meaning) << " Default: "
              << (declaration.default_value.empty() ? "empty" : plain(declaration.default_value))
              << ".\n\n";
}

}  // namespace

int main() {
    std::cout << R"(% VIADUCT.CONF(5) Viaduct | Viaduct Manual

# NAME

viaduct.conf - settings of Viaduct

# DESCRIPTION

Every setting is an environment variable. It may also stand in a file with lines **NAME=value**,
which is the one that **VIA\_CONFIG** names, or else the first that exists of

- *\$XDG\_CONFIG\_HOME/viaduct/viaduct.conf* (*\~/.config/viaduct/viaduct.conf* if that is not set),
- */etc/viaduct.conf*.

The environment wins over the file. A **#** at the start of a line or after a blank begins a comment.
Sizes in bytes take the suffixes **k**, **m** and **g**. A flag is **1**, **yes**, **on** or **true**,
or the opposite of these. Settings are read once, when a process first uses Viaduct; a program with
more rights than its caller (set-uid) reads */etc/viaduct.conf* only.

A name that does not exist gives a warning with the nearest one that does; a value that is not
allowed gives a warning, and the default is used. **via config** shows what holds and why.

# SETTINGS

)";
    for (const SettingDeclaration& declaration : setting_declarations())
        write_setting(declaration);
    std::cout << R"(# SEE ALSO

**via**(1), **viad**(8), **vipl**(7)
)";
    return std::cout.flush() ? 0 : 1;
}
