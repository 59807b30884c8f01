// SPDX-License-Identifier: BSD-3-Clause
// `via lab`: hosts out of network namespaces, with links that can be spoiled.
#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "command.hpp"
#include "lab/lab.hpp"
#include "lab/names.hpp"
#include "lab/quantities.hpp"
#include "lab_demo.hpp"
#include "text_table.hpp"

namespace via::tool {
namespace {

using base::Result;
using lab::Lab;
using lab::LabLink;
using lab::LabOptions;
using lab::LinkEnd;

constexpr const char* default_name = "lab";

nlohmann::json lab_to_json(const LinkEnd& end) {
    nlohmann::json value = {{"host", end.host},
                            {"device", end.device},
                            {"address", end.ipv4},
                            {"up", end.up},
                            {"carrier", end.carrier},
                            {"mtu", end.mtu},
                            {"rate_bits_per_s", end.sends.rate},
                            {"loss_ppm", end.sends.loss},
                            {"duplicate_ppm", end.sends.duplicate},
                            {"reorder_ppm", end.sends.reorder},
                            {"corrupt_ppm", end.sends.corrupt},
                            {"delay_ns", end.sends.delay},
                            {"seed", end.sends.seed},
                            {"silent", end.sends.silent},
                            {"offload", end.sends.offload},
                            {"relay_missing", end.relay_missing}};
    if (!end.ipv6.empty()) value["address6"] = end.ipv6;
    return value;
}

nlohmann::json lab_to_json(const lab::LabStatus& status) {
    nlohmann::json hosts = nlohmann::json::array();
    for (const lab::HostStatus& host : status.hosts) {
        nlohmann::json processes = nlohmann::json::array();
        for (const lab::ProcessInSpace& process : host.processes)
            processes.push_back(
                {{"pid", process.pid}, {"name", process.name}, {"command", process.command}});
        hosts.push_back({{"name", host.name}, {"namespace", host.space}, {"processes", processes}});
    }
    nlohmann::json links = nlohmann::json::array();
    for (const auto& ends : status.links) {
        nlohmann::json list = nlohmann::json::array();
        for (const LinkEnd& end : ends)
            list.push_back(lab_to_json(end));
        links.push_back({{"ends", list}});
    }
    return {{"lab", status.options.name},
            {"ipv6", status.options.ipv6},
            {"hosts", hosts},
            {"links", links}};
}

std::string state_text(const LinkEnd& end) {
    if (!end.up) return "down";
    if (!end.carrier) return "no carrier";
    if (end.relay_missing) return "relay died";
    return end.sends.silent ? "silent" : "up";
}

/// A line for each direction; what is as usual is a dot.
std::string draw_links(const std::vector<std::pair<unsigned, std::vector<LinkEnd>>>& links) {
    TextTable table;
    table.add_column("link");
    table.add_column("host", Align::Left);
    table.add_column("address", Align::Left);
    table.add_column("state", Align::Left);
    for (const char* title :
         {"mtu", "rate", "delay", "loss", "duplicate", "reorder", "corrupt", "offload"})
        table.add_column(title);
    const auto or_dot = [](std::string text) { return text == "off" ? "·" : text; };
    for (const auto& [number, ends] : links)
        for (const LinkEnd& end : ends) {
            const lab::LinkState& sends = end.sends;
            table.add_row(
                {fmt::format("{}", number), end.host, end.ipv4, state_text(end),
                 fmt::format("{}", end.mtu), or_dot(lab::rate_text(sends.rate)),
                 or_dot(lab::delay_text(sends.delay)), or_dot(lab::share_text(sends.loss)),
                 or_dot(lab::share_text(sends.duplicate)), or_dot(lab::share_text(sends.reorder)),
                 or_dot(lab::share_text(sends.corrupt)), sends.offload ? "·" : "no"});
        }
    return table.draw();
}

void print_for_people(const lab::LabStatus& status) {
    fmt::print("Lab '{}'. Rate to offload are what happens to what the host sends.\n\n",
               status.options.name);
    std::vector<std::pair<unsigned, std::vector<LinkEnd>>> links;
    for (unsigned number = 0; number < status.links.size(); ++number)
        links.emplace_back(number, status.links[number]);
    fmt::print("{}\n", draw_links(links));
    TextTable table;
    table.add_column("host", Align::Left);
    table.add_column("pid");
    table.add_column("runs", Align::Left);
    bool any = false;
    for (const lab::HostStatus& host : status.hosts)
        for (const lab::ProcessInSpace& process : host.processes) {
            any = true;
            // The relay has the command line of whoever started it.
            const bool relay = process.name.starts_with("via-relay");
            table.add_row(
                {host.name, fmt::format("{}", process.pid),
                 std::string(clip(
                     printable(relay || process.command.empty() ? process.name : process.command),
                     60))});
        }
    if (any)
        fmt::print("{}", table.draw());
    else
        fmt::print("Nothing runs in it.\n");
}

Result<void> show(const Lab& lab, bool json) {
    auto status = lab.status();
    if (!status) return std::move(status).error();
    if (json)
        print_json(lab_to_json(status.value()));
    else
        print_for_people(status.value());
    return {};
}

Result<void> bring_up(const LabOptions& options, bool json) {
    auto lab = Lab::up(options);
    if (!lab) return std::move(lab).error();
    lab.value().keep();
    return show(lab.value(), json);
}

Result<void> take_down(const std::string& name, bool json) {
    auto was_there = Lab::take_down(name);
    if (!was_there) return std::move(was_there).error();
    if (json)
        print_json({{"lab", name}, {"was_there", was_there.value()}});
    else
        fmt::print("{}\n", was_there.value()
                               ? fmt::format("The lab '{}' is gone, and what ran in it.", name)
                               : fmt::format("There is no lab '{}'.", name));
    return {};
}

Result<void> show_status(const std::string& name, bool json) {
    auto lab = Lab::find(name);
    if (!lab) return std::move(lab).error();
    return show(lab.value(), json);
}

/// "both" is empty; "a-to-b" or "a-to-all" is "a".
Result<std::string> sender_of(const std::string& direction, const LabOptions& options) {
    if (direction == "both") return std::string();
    const std::size_t middle = direction.find("-to-");
    const std::string from = direction.substr(0, middle);
    const std::string to =
        middle == std::string::npos ? std::string() : direction.substr(middle + 4);
    const auto known = [&](const std::string& host) {
        const auto number = lab::host_number(host);
        return number && *number < options.hosts;
    };
    if (known(from) && (to == "all" || (options.hosts == 2 && known(to) && to != from)))
        return from;
    if (known(from) && known(to) && to != from)
        return {base::Code::NotSupported,
                fmt::format("--direction {}: with more than two hosts a direction is all that one "
                            "host sends: {}-to-all",
                            direction, from)};
    return {base::Code::InvalidArgument,
            fmt::format("--direction {}: it is both, a-to-b or b-to-a (a-to-all with more hosts)",
                        direction)};
}

struct LinkOptions {
    std::string name = default_name;
    std::string number;
    std::string value;
    std::string direction = "both";
    std::string side;
    std::optional<std::uint64_t> seed;
};

std::optional<unsigned> parse_number(const std::string& text) {
    unsigned number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end) return std::nullopt;
    return number;
}

/// Finds the link, does `what` to it and shows what it is like now.
Result<void> treat_link(LinkOptions options,
                        const std::function<Result<void>(const LabLink&, const std::string& from,
                                                         const LinkOptions&)>& what) {
    // "link down 1" is as good as "link 1 down".
    if (!parse_number(options.number) && parse_number(options.value))
        std::swap(options.number, options.value);
    const auto number = parse_number(options.number);
    if (!number)
        return {base::Code::InvalidArgument,
                fmt::format("'{}' is no number of a link", options.number)};
    auto lab = Lab::find(options.name);
    if (!lab) return std::move(lab).error();
    auto link = lab.value().find_link(*number);
    if (!link) return std::move(link).error();
    auto from = sender_of(options.direction, lab.value().options());
    if (!from) return std::move(from).error();
    if (auto done = what(link.value(), from.value(), options); !done) return done;
    auto ends = link.value().ends();
    if (!ends) return std::move(ends).error();
    fmt::print("{}", draw_links({{*number, std::move(ends).value()}}));
    return {};
}

Result<bool> parse_switch(const std::string& text) {
    if (text == "on") return true;
    if (text == "off") return false;
    return {base::Code::InvalidArgument, fmt::format("'{}' is neither on nor off", text)};
}

Result<void> switch_link(const LabLink& link, const std::string&, const LinkOptions& options) {
    if (options.value == "up") return link.up(options.side);
    if (options.value == "down") return link.down(options.side);
    return {base::Code::InvalidArgument, fmt::format("'{}' is neither up nor down", options.value)};
}

Result<void> set_mtu(const LabLink& link, const std::string&, const LinkOptions& options) {
    const auto bytes = parse_number(options.value);
    if (!bytes)
        return {base::Code::InvalidArgument,
                fmt::format("'{}' is no number of bytes", options.value)};
    return link.mtu(*bytes);
}

/// Reads the value and puts it into a member of the link's state.
template <class Value, class Parse>
auto set_state(Value lab::LinkState::*member, const Parse& parse) {
    return [member, parse](const LabLink& link, const std::string& from,
                           const LinkOptions& options) -> Result<void> {
        auto value = parse(options.value);
        if (!value) return std::move(value).error();
        return link.change(
            [&](lab::LinkState& state) {
                state.*member = value.value();
                if (options.seed) state.seed = *options.seed;
            },
            from);
    };
}

/// Comes back only if it fails: the command takes this process's place, so its status, its signals
/// and its end are the caller's to see.
Result<void> run_in_host(const std::string& name, const std::string& host,
                         std::vector<std::string> command) {
    auto lab = Lab::find(name);
    if (!lab) return std::move(lab).error();
    if (auto entered = lab.value().enter(host); !entered) return entered;
    std::vector<char*> words;
    for (std::string& word : command)
        words.push_back(word.data());
    words.push_back(nullptr);
    ::execvp(words[0], words.data());
    return base::system_error(errno, fmt::format("running '{}' in host {}", command[0], host));
}

constexpr int status_not_run = 127;  // as a shell says it

class LabCommands {
  public:
    LabCommands(CLI::App& command, int& status) : command_(command), status_(status) {}

    void add_up() {
        auto options = std::make_shared<LabOptions>();
        auto json = std::make_shared<bool>(false);
        CLI::App* action = command_.add_subcommand("up", "Make a lab");
        add_name(action, options->name);
        action->add_option("--hosts", options->hosts, "How many hosts: a, b, ...")
            ->capture_default_str();
        action->add_option("--links", options->links, "How many links between them")
            ->capture_default_str();
        action->add_option("--mtu", options->mtu, "Bytes a packet on a link may have")
            ->capture_default_str();
        action->add_flag("--ipv6", options->ipv6, "With IPv6 addresses too");
        action->add_flag("--json", *json, "Print JSON");
        finish(action, [options, json] { return bring_up(*options, *json); });
    }

    void add_whole(const char* word, const char* meaning,
                   Result<void> (*run)(const std::string&, bool)) {
        auto name = std::make_shared<std::string>(default_name);
        auto json = std::make_shared<bool>(false);
        CLI::App* action = command_.add_subcommand(word, meaning);
        add_name(action, *name);
        action->add_flag("--json", *json, "Print JSON");
        finish(action, [name, json, run] { return run(*name, *json); });
    }

    void add_run() {
        struct Options {
            std::string name = default_name;
            std::string host;
            std::vector<std::string> command;
        };
        auto options = std::make_shared<Options>();
        CLI::App* action = command_.add_subcommand("run", "Run a command in a host");
        add_name(action, options->name);
        action->add_option("host", options->host, "a, b, ...")->required();
        action->add_option("command", options->command, "-- command arguments...")->required();
        action->callback([options, &status = status_] {
            const auto failed = run_in_host(options->name, options->host, options->command);
            static_cast<void>(report_failure(failed.error()));
            status = status_not_run;
        });
    }

    /// As ssh is called: a host, and words that are a command for a shell. By it launchers of MPI
    /// reach the hosts.
    void add_shell() {
        auto name = std::make_shared<std::string>(default_name);
        CLI::App* action = command_.add_subcommand(
            "shell", "Run words by a shell in a host, as ssh would: shell b uname -n");
        add_name(action, *name);
        action->prefix_command();
        action->callback([name, action, &status = status_] {
            std::vector<std::string> words = action->remaining();
            if (words.size() < 2) {
                status = report_failure({base::Code::InvalidArgument,
                                         "via lab shell: a host and a command are needed"});
                return;
            }
            std::string line = words[1];
            for (std::size_t index = 2; index < words.size(); ++index)
                line += " " + words[index];
            const auto failed = run_in_host(*name, words[0], {"/bin/sh", "-c", line});
            static_cast<void>(report_failure(failed.error()));
            status = status_not_run;
        });
    }

    void add_demo() {
        auto options = std::make_shared<LabDemoOptions>();
        auto rate = std::make_shared<std::string>("1gbit");
        CLI::App* action = command_.add_subcommand(
            "demo", "Stream over two links, cut one, bring it back, and plot what arrives");
        action->add_option("--seconds", options->seconds, "How long the stream should take")
            ->check(CLI::Range(1.0, 3600.0))
            ->capture_default_str();
        action->add_option("--cut", options->cut, "When link 1 is cut")->capture_default_str();
        action->add_option("--back", options->back, "When it comes back")->capture_default_str();
        action->add_option("--rate", *rate, "Of each link")->capture_default_str();
        action->add_flag("--silent", options->silent,
                         "Cut it without a sign: packets vanish, the interfaces stay up");
        action->add_option("--chart", options->chart,
                           "Also draw PATH.svg and PATH.png (needs gnuplot)");
        action->add_flag("--json", options->json, "Print JSON");
        finish(action, [options, rate]() -> Result<void> {
            auto bits = lab::parse_rate(*rate);
            if (!bits) return std::move(bits).error();
            if (bits.value() == 0)
                return {base::Code::InvalidArgument, "--rate: the demo needs a limit"};
            options->rate = static_cast<double>(bits.value());
            return run_lab_demo(*options);
        });
    }

    enum class Direction : bool { No, Yes };
    template <class What>
    CLI::App* add_link(const char* word, const char* meaning, const char* value_meaning,
                       Direction direction, const What& what) {
        auto options = std::make_shared<LinkOptions>();
        CLI::App* action = command_.add_subcommand(word, meaning);
        add_name(action, options->name);
        action->add_option("link", options->number, "Which link: 0, 1, ...")->required();
        action->add_option("value", options->value, value_meaning)->required();
        if (direction == Direction::Yes) {
            action->add_option("--direction", options->direction, "both, a-to-b or b-to-a")
                ->capture_default_str();
            action->add_option("--seed", options->seed, "Of what the relay does by chance");
        } else if (std::string_view(word) == "link") {
            action->add_option("--side", options->side, "Only the end of this host");
        }
        finish(action, [options, what] { return treat_link(*options, what); });
        return action;
    }

  private:
    static void add_name(CLI::App* action, std::string& name) {
        action->add_option("--name", name, "Which lab")->capture_default_str();
    }
    template <class Run>
    void finish(CLI::App* action, const Run& run) {
        action->callback([run, &status = status_] {
            const auto done = run();
            status = done ? status_good : report_failure(done.error());
        });
    }

    CLI::App& command_;
    int& status_;
};

}  // namespace

void add_lab_command(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand(
        "lab", "Hosts out of network namespaces, with links to cut, slow down and spoil (root)");
    command->require_subcommand(1);
    LabCommands add(*command, status);
    using enum LabCommands::Direction;
    using lab::LinkState;
    add.add_up();
    add.add_whole("down", "End what runs in a lab and remove it", take_down);
    add.add_whole("status", "Hosts, links, what is wrong with them, what runs", show_status);
    add.add_run();
    add.add_shell();
    add.add_demo();
    add.add_link("link", "Switch a link off or on", "down or up", No, switch_link);
    add.add_link("mtu", "Bytes a packet may have", "1280 to 65535", No, set_mtu);
    add.add_link("rate", "Limit the rate", "1gbit, 250mbit, off", Yes,
                 set_state(&LinkState::rate, lab::parse_rate));
    add.add_link("delay", "Delay every packet", "200us, 5ms, off", Yes,
                 set_state(&LinkState::delay, lab::parse_delay));
    add.add_link("loss", "Lose packets", "2%, off", Yes,
                 set_state(&LinkState::loss, lab::parse_share));
    add.add_link("duplicate", "Deliver packets twice", "1%, off", Yes,
                 set_state(&LinkState::duplicate, lab::parse_share));
    add.add_link("reorder", "Hold packets so that others overtake them", "1%, off", Yes,
                 set_state(&LinkState::reorder, lab::parse_share));
    add.add_link("corrupt", "Change a byte of packets", "0.1%, off", Yes,
                 set_state(&LinkState::corrupt, lab::parse_share));
    add.add_link("silent", "Lose everything, with no sign of it", "on, off", Yes,
                 set_state(&LinkState::silent, parse_switch));
    add.add_link("offload", "Let packets travel in trains", "on, off", Yes,
                 set_state(&LinkState::offload, parse_switch));
}

}  // namespace via::tool
