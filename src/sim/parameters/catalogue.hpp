// SPDX-License-Identifier: BSD-3-Clause
// The parameter files that come with the program, by name; others are given by their path.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/parameters/declaration.hpp"

namespace via::sim {

struct CataloguedFile {
    std::string_view name;  ///< "p2-300.machine"
    std::string_view text;
};
[[nodiscard]] std::span<const CataloguedFile> catalogue();

/// "p2-300" and "machine" mean p2-300.machine of the catalogue; a name with a slash is a path.
/// InvalidArgument lists the names there are.
struct ParameterSource {
    std::string file;  ///< for error messages
    std::string text;
};
[[nodiscard]] base::Result<ParameterSource> find_parameters(std::string_view name,
                                                            std::string_view kind);

template <class Structure>
[[nodiscard]] base::Result<Structure> load_parameters(
    std::string_view name, std::string_view kind,
    std::span<const Declaration<Structure>> declarations,
    std::vector<KnownParameter>* known = nullptr) {
    auto source = find_parameters(name, kind);
    if (!source) return std::move(source).error();
    return read_parameters(std::string_view(source.value().text),
                           std::string_view(source.value().file), declarations, known);
}

}  // namespace via::sim
