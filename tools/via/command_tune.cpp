// SPDX-License-Identifier: BSD-3-Clause
// `via tune`: this machine's thresholds for the shm device, measured and stored.
#include <fmt/format.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/settings.hpp"
#include "command.hpp"
#include "cpu_choice.hpp"
#include "probes.hpp"
#include "settings_file.hpp"
#include "tune/thresholds.hpp"
#include "tune/tune_report.hpp"

namespace via::tool {
namespace {

using base::Result;

struct TuneOptions {
    std::string device = "shm0";
    std::string data = "fresh";
    std::optional<std::uint32_t> rounds;
    std::optional<std::string> cpus;
    std::optional<std::string> file;
    bool quick = false;
    bool dry_run = false;
    bool force = false;
    bool json = false;
};

/// What runs now and how far it is, on a terminal.
class ProgressLine {
  public:
    explicit ProgressLine(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) == 1) {}
    ~ProgressLine() {
        if (shown_) fmt::print(stderr, "\r\x1b[K");
    }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    void stage(std::string_view name, std::size_t steps) {
        name_ = name;
        steps_ = steps;
        done_ = 0;
        show();
    }
    void step() {
        ++done_;
        show();
    }

  private:
    void show() const {
        if (!shown_) return;
        fmt::print(stderr, "\r\x1b[K{}: {} of {} runs", name_, done_, steps_);
        fflush(stderr);
    }
    bool shown_;
    std::string name_;
    std::size_t steps_ = 0;
    std::size_t done_ = 0;
};

std::string today() {
    const time_t now = time(nullptr);
    tm parts{};
    std::array<char, 32> text{};
    if (localtime_r(&now, &parts) == nullptr) return "?";
    strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
    return text.data();
}

std::string machine_text() {
    const Machine machine = describe_machine();
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return fmt::format("{} ({}{}{})", name.data(), machine.processor,
                       machine.processor.empty() ? "" : ", ",
                       machine.architecture + ", " + machine.kernel);
}

/// The file's text to begin with. A new file of the user hides the system's, so it starts as a copy
/// of that.
Result<std::string> text_to_change(const std::string& path) {
    auto text = base::read_settings_file(path);
    if (text || text.error().code != base::Code::NotFound) return text;
    const std::string& in_use = base::Settings::get().file_name();
    if (in_use.empty() || in_use == path || path != base::user_settings_file())
        return std::string();
    auto system = base::read_settings_file(in_use);
    if (!system) return system;
    return fmt::format("# Begun as a copy of {}\n", in_use) + system.value();
}

Result<void> store(const std::string& path, const NewSettings& values) {
    auto text = text_to_change(path);
    if (!text) return std::move(text).error();
    return replace_file(
        path, rewrite_settings(text.value(), values, "via tune:",
                               fmt::format("measured {} on {}", today(), machine_text())));
}

/// Why what is stored may have no effect: a variable of the environment wins over the file, and a
/// forced path over thresholds.
std::vector<std::string> what_hides(const NewSettings& values) {
    std::vector<std::string> sentences;
    if (const std::string& path = base::Settings::get().text("VIA_SHM_PATH"); path != "auto")
        sentences.push_back(
            fmt::format("VIA_SHM_PATH is {}, which rules some paths out; all were measured", path));
    for (const auto& [name, value] : values)
        if (const char* set = getenv(name.c_str()); set != nullptr && *set != '\0')
            sentences.push_back(fmt::format(
                "{} is {} in the environment, which wins over the file; unset it to use {}", name,
                set, value));
    return sentences;
}

Result<std::string> file_to_write(const TuneOptions& options) {
    if (options.file) return *options.file;
    std::string path = base::user_settings_file();
    if (path.empty())
        return {base::Code::NotFound,
                "there is no home folder for a settings file; name one with --file"};
    return path;
}

Result<void> run(const TuneOptions& options) {
    auto file = file_to_write(options);
    if (!file) return std::move(file).error();
    if (!options.dry_run)
        if (auto possible = check_replaceable(file.value()); !possible) return possible;
    const std::vector<Processor> processors = usable_processors();
    Result<CpuPair> cpus =
        options.cpus ? parse_cpus(*options.cpus, processors) : choose_cpus(processors);
    if (!cpus) return std::move(cpus).error();

    TunePlan plan;
    plan.runs.device = options.device;
    plan.runs.cpus = cpus.value();
    plan.runs.fresh = options.data == "fresh";
    plan.runs.rounds = options.rounds.value_or(options.quick ? 3 : 7);
    plan.runs.seconds = options.quick ? 0.003 : 0.005;
    plan.effect_rounds = options.rounds.value_or(options.quick ? 5 : 11);
    plan.quick = options.quick;
    std::optional<ProgressLine> progress(std::in_place, !options.json);
    plan.on_stage = [&](std::string_view name, std::size_t steps) { progress->stage(name, steps); };
    plan.runs.on_step = [&] { progress->step(); };
    auto studies = study_thresholds(current_thresholds(), plan);
    progress.reset();
    if (!studies) return std::move(studies).error();

    const NewSettings values = values_to_store(studies.value(), options.force);
    const bool stores = !options.dry_run && !values.empty();
    if (stores)
        if (auto stored = store(file.value(), values); !stored) return stored;
    const std::vector<std::string> hidden = what_hides(values);

    if (options.json) {
        nlohmann::json to_store = nlohmann::json::object();
        for (const auto& [name, value] : values)
            to_store[name] = value;
        print_json({{"settings", to_json(studies.value())},
                    {"to_store", to_store},
                    {"stored", stores},
                    {"file", file.value()},
                    {"data", options.data},
                    {"warnings", hidden}});
        return {};
    }
    fmt::print("{} measured on {}, {}\n\n", options.device, describe(cpus.value()),
               options.data == "fresh" ? "each message written anew before it is sent"
                                       : "the same bytes sent again and again");
    fmt::print("{}\n", draw_studies(studies.value()));
    for (const SettingStudy& study : studies.value())
        fmt::print("{}\n", study.verdict);
    if (values.empty())
        fmt::print("\nNothing is won beyond the spread; the settings stay as they are.\n");
    else
        fmt::print("\n{} {}:\n", stores ? "Stored in" : "To be stored (not done: --dry-run) in",
                   file.value());
    for (const auto& [name, value] : values)
        fmt::print("  {}={}\n", name, value);
    for (const std::string& sentence : hidden)
        fmt::print("{}.\n", sentence);
    return {};
}

}  // namespace

void add_tune_command(CLI::App& app, int& status) {
    auto options = std::make_shared<TuneOptions>();
    CLI::App* command = app.add_subcommand(
        "tune", "Measure this machine's thresholds for the shm device and store them");
    command->add_option("--device", options->device, "The NIC to measure")->capture_default_str();
    command->add_flag("--quick", options->quick, "Fewer sizes and rounds");
    command->add_option("--rounds", options->rounds, "How often to measure everything in turn")
        ->check(CLI::Range(1U, 1000U));
    command
        ->add_option("--data", options->data,
                     "fresh: each message is written before it is sent, as programs do; same: the "
                     "same bytes again, as benchmarks do")
        ->check(CLI::IsMember({"fresh", "same"}))
        ->capture_default_str();
    command->add_option("--cpus", options->cpus, "Processors for the two sides, such as 0,1");
    command->add_option("--file", options->file,
                        "The settings file to change (default: the user's, see viaduct.conf(5))");
    command->add_flag("--dry-run", options->dry_run, "Write nothing");
    command->add_flag("--force", options->force, "Store the values even if they win nothing");
    command->add_flag("--json", options->json, "Print JSON");
    command->callback([options, &status] {
        const auto done = run(*options);
        status = done ? status_good : report_failure(done.error());
    });
}

}  // namespace via::tool
