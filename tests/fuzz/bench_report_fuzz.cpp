// SPDX-License-Identifier: BSD-3-Clause
// Results of a benchmark may come from anybody. Whatever the file says, it is refused with a
// sentence that can be printed, or it becomes a page and can be compared with itself, which finds
// no change.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "report_diff.hpp"
#include "report_file.hpp"
#include "report_page.hpp"
#include "text_table.hpp"
#include "tools/xml_check.hpp"

using namespace via::tool;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto report =
        parse_report_text(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!report) {
        require(printable(report.error().sentence) == report.error().sentence);
        return 0;
    }
    require(test::xml_fault(report_page(report.value())).empty());
    const ReportDiff diff = compare_reports(report.value(), report.value(), 0);
    (void)draw_diff(diff, true);
    (void)to_json(diff).dump();
    return 0;
}
