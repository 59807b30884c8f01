// SPDX-License-Identifier: BSD-3-Clause
// `via report`: what `./run bench` has written, compared or shown again.
#include <fmt/format.h>
#include <stdio.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.hpp"
#include "report_diff.hpp"
#include "report_file.hpp"
#include "report_page.hpp"
#include "result_files.hpp"

namespace via::tool {
namespace {

/// Of diff: 1 is the answer "something got slower", so what can not be read is 2.
constexpr int status_slower = 1;

struct ReportOptions {
    std::string before;
    std::string after;
    std::string file;
    std::string output;
    double tolerance = 5;
    bool all = false;
    bool json = false;
};

int show_difference(const ReportOptions& options) {
    const auto before = read_report(options.before);
    const auto after = read_report(options.after);
    if (!before || !after) {
        (void)report_failure(before ? after.error() : before.error());
        return status_misused;
    }
    const ReportDiff diff = compare_reports(before.value(), after.value(), options.tolerance);
    if (options.json) {
        nlohmann::json answer = to_json(diff);
        answer["tolerance_percent"] = options.tolerance;
        print_json(answer);
    } else {
        fmt::print("{}", draw_diff(diff, options.all));
    }
    return diff.count(ChangeKind::Slower) > 0 ? status_slower : status_good;
}

int show_page(const ReportOptions& options) {
    const auto report = read_report(options.file);
    if (!report) {
        (void)report_failure(report.error());
        return status_misused;
    }
    const std::string page = report_page(report.value());
    if (options.output.empty()) {
        fmt::print("{}", page);
        fflush(stdout);
        return status_good;
    }
    if (auto written = write_text_file(options.output, page); !written)
        return report_failure(written.error());
    const ReportCount count = count_rows(report.value());
    fmt::print("{} of {} demands pass; the page: {}\n", count.passed, count.demands,
               options.output);
    return status_good;
}

}  // namespace

void add_report_command(CLI::App& app, int& status) {
    CLI::App* report =
        app.add_subcommand("report", "Results of ./run bench: compare two, or show one as a page");
    report->require_subcommand(1);
    auto options = std::make_shared<ReportOptions>();
    CLI::App* diff = report->add_subcommand(
        "diff", "What got slower from one run to the other; exit status 1 if something did");
    diff->add_option("before", options->before, "The bench.json of the first run")->required();
    diff->add_option("after", options->after, "The bench.json of the second run")->required();
    diff->add_option("--tolerance", options->tolerance,
                     "Percent that a median may be worse without being called slower")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1000.0));
    diff->add_flag("--all", options->all, "Also list rows that are the same");
    diff->add_flag("--json", options->json, "As JSON");
    diff->callback([options, &status] { status = show_difference(*options); });

    CLI::App* show = report->add_subcommand("show", "One run as a page of HTML");
    show->add_option("file", options->file, "The bench.json of the run")->required();
    show->add_option("--output", options->output,
                     "The file for the page (default: standard output)");
    show->callback([options, &status] { status = show_page(*options); });
}

}  // namespace via::tool
