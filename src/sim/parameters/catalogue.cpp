// SPDX-License-Identifier: BSD-3-Clause
#include "sim/parameters/catalogue.hpp"

#include <cerrno>
#include <fstream>
#include <sstream>

namespace via::sim {

base::Result<ParameterSource> find_parameters(std::string_view name, std::string_view kind) {
    using Found = base::Result<ParameterSource>;
    if (name.find('/') != std::string_view::npos) {
        const std::string path(name);
        std::ifstream file(path);
        if (!file) return base::system_error(errno, "cannot read the parameter file " + path);
        std::ostringstream text;
        text << file.rdbuf();
        return ParameterSource{path, text.str()};
    }
    const std::string wanted = std::string(name) + "." + std::string(kind);
    std::string names;
    for (const CataloguedFile& each : catalogue()) {
        if (each.name == wanted) return ParameterSource{wanted, std::string(each.text)};
        const auto dot = each.name.rfind('.');
        if (each.name.substr(dot + 1) != kind) continue;
        if (!names.empty()) names += ", ";
        names += each.name.substr(0, dot);
    }
    return Found(base::Code::InvalidArgument, "there is no " + std::string(kind) + " '" +
                                                  std::string(name) + "'; there are " + names +
                                                  ", or give the path of a file");
}

}  // namespace via::sim
