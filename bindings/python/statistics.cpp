// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.hpp"

#include <nlohmann/json.hpp>
#include <string>

#include "base/settings.hpp"
#include "error.hpp"
#include "process_report.hpp"
#include "process_watch.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace via::python {
namespace {

py::object counters(const std::string& who) {
    nlohmann::json list = nlohmann::json::array();
    {
        const py::gil_scoped_release release;
        tool::ProcessWatch watch(who, tool::OwnProcess::Shown);
        auto seen = watch.look();
        if (!seen && !tool::no_agent(seen.error())) {
            const py::gil_scoped_acquire acquire;
            raise({VIP_ERROR_RESOURCE, seen.error().sentence});
        }
        if (seen)
            for (tool::WatchedProcess& process : seen.value())
                list.push_back(tool::process_json(tool::with_rates(std::move(process))));
    }
    return py::module_::import("json").attr("loads")(list.dump());
}

py::dict settings() {
    py::dict all;
    for (const base::SettingValue& value : base::Settings::get().values())
        if (!value.declaration->secret)
            all[py::str(std::string(value.declaration->name))] = value.text;
    return all;
}

}  // namespace

void define_statistics(py::module_& module) {
    module.def("counters", &counters, "who"_a = "",
               "The counters of your processes that use Viaduct, this one included: a list of "
               "dictionaries as `via stat --once --json` prints them under \"processes\". `who`: a "
               "process number or a part of a program's name.");
    module.def("settings", &settings, "Every setting and its value, as `via config` shows them.");
}

}  // namespace via::python
