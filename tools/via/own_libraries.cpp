// SPDX-License-Identifier: BSD-3-Clause
#include "own_libraries.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "child_program.hpp"

namespace via::tool {
namespace {

using base::Code;
using base::Result;
using std::filesystem::path;

/// The first of the folders that holds the file; nothing: none does.
std::string first_that_holds(const std::vector<path>& folders, std::string_view file) {
    for (const path& folder : folders) {
        std::error_code error;
        if (!std::filesystem::exists(folder / file, error)) continue;
        const auto whole = std::filesystem::canonical(folder, error);
        return (error ? folder : whole).string();
    }
    return {};
}

/// In all folders of libraries that may be this program's.
void add_library_folders(std::vector<path>& folders, std::initializer_list<const char*> names) {
    const path own = child::own_folder();
    for (const char* libraries : {"../lib", VIA_LIBRARIES_FROM_PROGRAMS})
        for (const char* name : names)
            folders.push_back(own / libraries / name);
}

/// What a program of Open MPI says behind `word`, to the end of the line. Empty: it does not say
/// it.
std::string told_by(const std::vector<std::string>& arguments, std::string_view word) {
    child::Command ask;
    ask.arguments = arguments;
    const auto told = child::run(ask, base::Deadline::after_milliseconds(20'000));
    if (!told) return {};
    const std::string& text = told.value();
    const auto at = text.find(word);
    if (at == std::string::npos) return {};
    const auto begin = at + word.size();
    return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

Result<std::string> find_provider_folder() {
    std::vector<path> folders;
    if (const char* given = ::getenv("FI_PROVIDER_PATH")) {
        std::string_view rest = given;
        if (rest.starts_with('@')) rest.remove_prefix(1);
        while (!rest.empty()) {
            const auto end = rest.find(':');
            folders.emplace_back(rest.substr(0, end));
            rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
        }
    }
    add_library_folders(folders, {"", "viaduct", "libfabric"});
    std::string found = first_that_holds(folders, "libvia-fi.so");
    if (!found.empty()) return found;
    return {Code::NotFound,
            fmt::format("libvia-fi.so, the provider for libfabric, is not where this program looks "
                        "for it ({}/../lib and FI_PROVIDER_PATH); Debian's package is libvia-fi, a "
                        "build of one's own has it where libfabric-dev is installed",
                        child::own_folder())};
}

Result<std::string> find_component_path(const std::string& launcher) {
    std::vector<path> folders;
    add_library_folders(folders, {"viaduct/openmpi", "openmpi"});
    const std::string own = first_that_holds(folders, "mca_pml_via.so");
    if (own.empty())
        return {Code::NotFound,
                fmt::format("mca_pml_via.so, the component for Open MPI, is not where this program "
                            "looks for it ({}/../lib); Debian's package is openmpi-via, a build of "
                            "one's own has it where libopenmpi-dev is installed",
                            child::own_folder())};
    const std::string asked = (path(launcher).parent_path() / "ompi_info").string();
    const std::string version = told_by({asked, "--version"}, "Open MPI v");
    if (!version.starts_with("4.1."))
        return {Code::NotSupported,
                fmt::format("mca_pml_via.so is for Open MPI 4.1, and {} says that this is {}",
                            asked, version.empty() ? "another" : version)};
    const std::string theirs =
        told_by({asked, "--parsable", "--path", "pkglibdir"}, "path:pkglibdir:");
    if (theirs.empty())
        return {Code::NotFound,
                fmt::format("{} does not say where Open MPI's own components are", asked)};
    return theirs + ":" + own;
}

}  // namespace via::tool
