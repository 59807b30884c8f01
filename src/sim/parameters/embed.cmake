# SPDX-License-Identifier: BSD-3-Clause
# Writes OUTPUT, a source file with the texts of FILES (a list): programs need no installed data.
set(source "// Made from the parameter files; do not edit.\n")
string(APPEND source "#include <array>\n\n#include \"sim/parameters/catalogue.hpp\"\n\n")
string(APPEND source "namespace via::sim {\n\n")
string(APPEND source "std::span<const CataloguedFile> catalogue() {\n")
string(APPEND source "    static constexpr auto files = std::to_array<CataloguedFile>({\n")
foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" text)
    string(APPEND source "        {\"${name}\", R\"parameters(${text})parameters\"},\n")
endforeach()
string(APPEND source "    });\n    return files;\n}\n\n}  // namespace via::sim\n")
file(WRITE "${OUTPUT}" "${source}")
