// SPDX-License-Identifier: BSD-3-Clause
// What `via demo` measured, as a table, as plots in the terminal and as files.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.hpp"

namespace via::tool {

/// One message size; 0: not measured.
struct DemoRow {
    double heap_us = 0;
    double kmem_us = 0;
    double bare_us = 0;  ///< a cache line's way to the other core, and one copy of the message
    double heap_mb_per_s = 0;
    double kmem_mb_per_s = 0;
    double copy_mb_per_s = 0;  ///< memcpy by one core
};

struct DemoReport {
    double line_us = 0;                     ///< one cache line from core to core
    std::map<std::uint64_t, DemoRow> rows;  ///< by size
};

/// Takes one result of the session in.
void add_result(DemoReport& report, const nlohmann::json& result);

[[nodiscard]] std::string draw_table(const DemoReport& report);
[[nodiscard]] std::string draw_plots(const DemoReport& report, bool colour, std::size_t columns);
[[nodiscard]] nlohmann::json to_json(const DemoReport& report);
/// For gnuplot: a line of numbers a size.
[[nodiscard]] std::string to_data_file(const DemoReport& report);
[[nodiscard]] std::string gnuplot_script(const std::string& data_file, const std::string& picture);

/// Writes demo.json, demo.dat and demo.gnuplot to the folder and lets gnuplot draw demo.png.
/// NotFound: gnuplot is not installed; the other files are there.
[[nodiscard]] base::Result<void> write_files(const DemoReport& report,
                                             const nlohmann::json& information,
                                             const std::string& folder);

}  // namespace via::tool
