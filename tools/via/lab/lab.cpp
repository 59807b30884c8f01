// SPDX-License-Identifier: BSD-3-Clause
#include "lab.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "names.hpp"
#include "system_programs.hpp"

namespace via::lab {
namespace {

using base::Result;

/// The last thing that is written when a lab is made: who finds it knows that all the rest is
/// there.
std::string shape_text(const LabOptions& options) {
    return fmt::format("via-lab hosts={} links={} mtu={} ipv6={}", options.hosts, options.links,
                       options.mtu, options.ipv6 ? 1 : 0);
}

/// No value: not written by shape_text().
std::optional<LabOptions> parse_shape(std::string_view name, const std::string& text) {
    LabOptions options;
    int ipv6 = 0;
    int length = 0;
    if (sscanf(text.c_str(), "via-lab hosts=%u links=%u mtu=%u ipv6=%d%n", &options.hosts,
               &options.links, &options.mtu, &ipv6, &length) != 4 ||
        text.size() != static_cast<std::size_t>(length))
        return std::nullopt;
    options.name = name;
    options.ipv6 = ipv6 != 0;
    if (options.hosts < 2 || options.hosts > most_hosts || options.links < 1 ||
        options.links > most_links)
        return std::nullopt;
    return options;
}

bool is_present(std::string_view name) {
    const std::vector<SpaceName> spaces = present_spaces();
    return std::any_of(spaces.begin(), spaces.end(),
                       [&](const SpaceName& space) { return space.lab == name; });
}

/// Of a lab that is whole; no value: there is none, or a part of one.
std::optional<LabOptions> read_shape(std::string_view name) {
    const std::string space = space_name(name, host_name(0));
    auto text = run_program({"ip", "-json", "link", "show", "dev", "lo"}, {space, {}});
    if (!text) return std::nullopt;
    const auto list = nlohmann::json::parse(text.value(), nullptr, false);
    if (!list.is_array() || list.empty() || !list[0].is_object()) return std::nullopt;
    return parse_shape(name, list[0].value("ifalias", std::string()));
}

Result<void> write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file) return base::system_error(errno, "writing " + path);
    return {};
}

/// Settings of the network of a host. They are a thread's own, so one is sent there.
Result<void> set_up_network(const std::string& space, bool ipv6) {
    auto door = SpaceDoor::open(space);
    if (!door) return std::move(door).error();
    int error = 0;
    std::thread([&] {
        error = door.value().enter_network();
        if (error != 0) return;
        const auto set = [](const char* name, const char* value) {
            for (const char* which : {"all", "default"})
                // A kernel without IPv6 has no such file, and needs none.
                std::ofstream(fmt::format("/proc/sys/net/ipv6/conf/{}/{}", which, name)) << value;
        };
        // A link without IPv6 is quiet: nothing is on it but what programs send.
        set("disable_ipv6", ipv6 ? "0" : "1");
        set("keep_addr_on_down", "1");
        set("accept_dad", "0");
    }).join();
    if (error != 0) return base::system_error(error, "entering the namespace " + space);
    return {};
}

Result<void> write_hosts_file(const LabOptions& options, const std::string& space) {
    std::string text = "127.0.0.1 localhost\n";
    if (options.ipv6) text += "::1 localhost\n";
    // A host has its name on all links, and a name on each: a-0, a-1.
    for (unsigned link = 0; link < options.links; ++link)
        for (unsigned host = 0; host < options.hosts; ++host) {
            const std::string name = host_name(host);
            text += fmt::format("{} {} {}-{}\n", ipv4_address(link, host), name, name, link);
            if (options.ipv6)
                text += fmt::format("{} {} {}-{}\n", ipv6_address(link, host), name, name, link);
        }
    const std::string folder = space_etc_folder(space);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return base::system_error(error.value(), "making the folder " + folder);
    return write_file(folder + "/hosts", text);
}

Result<void> make_spaces(const LabOptions& options) {
    std::string commands;
    for (unsigned host = 0; host < options.hosts; ++host)
        commands += fmt::format("netns add {}\n", space_name(options.name, host_name(host)));
    if (options.hosts > 2)
        commands += fmt::format("netns add {}\n", space_name(options.name, wire));
    if (auto done = run_ip({}, commands); !done) return done;
    for (unsigned host = 0; host < options.hosts; ++host) {
        const std::string space = space_name(options.name, host_name(host));
        if (auto done = set_up_network(space, options.ipv6); !done) return done;
        if (auto done = write_hosts_file(options, space); !done) return done;
    }
    // The wire has no addresses and nothing to say.
    if (options.hosts > 2) return set_up_network(space_name(options.name, wire), false);
    return {};
}

/// An end of a cable, for `ip link add`. The two ends need different numbers: the kernel tells of
/// a change of the carrier at once only where it sees that the device has another one beneath it,
/// and else up to a second later, until when IPv6 is deaf.
std::string cable_end(const std::string& device, unsigned index, unsigned mtu) {
    return fmt::format("name {} index {} mtu {}", device, index, mtu);
}

/// Two hosts have a cable between them; more have a bridge per link.
Result<void> make_links(const LabOptions& options) {
    const std::string wire_space = space_name(options.name, wire);
    std::string wire_commands;
    std::vector<std::string> cables(options.hosts);
    const auto add_cable = [&](unsigned host, unsigned link, const std::string& far_device,
                               const std::string& far_space) {
        const unsigned index = 10 + 2 * (host * most_links + link);
        cables[host] += fmt::format("link add {} type veth peer {} netns {}\n",
                                    cable_end(device_name(link), index, options.mtu),
                                    cable_end(far_device, index + 1, options.mtu), far_space);
    };
    for (unsigned link = 0; link < options.links; ++link) {
        if (options.hosts == 2) {
            add_cable(0, link, device_name(link), space_name(options.name, host_name(1)));
            continue;
        }
        wire_commands += fmt::format(
            "link add {0} mtu {1} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
            "link set dev {0} up\n",
            bridge_name(link), options.mtu);
        for (unsigned host = 0; host < options.hosts; ++host) {
            add_cable(host, link, port_name(link, host), wire_space);
            wire_commands += fmt::format("link set dev {} master {} up\n", port_name(link, host),
                                         bridge_name(link));
        }
    }
    for (unsigned host = 0; host < options.hosts; ++host)
        if (!cables[host].empty())
            if (auto done = run_ip(space_name(options.name, host_name(host)), cables[host]); !done)
                return done;
    if (!wire_commands.empty())
        if (auto done = run_ip(wire_space, wire_commands); !done) return done;
    return {};
}

Result<void> make_addresses(const LabOptions& options) {
    for (unsigned host = 0; host < options.hosts; ++host) {
        std::string commands = "link set dev lo up\n";
        for (unsigned link = 0; link < options.links; ++link) {
            const std::string device = device_name(link);
            commands += fmt::format("addr add {}/24 dev {}\n", ipv4_address(link, host), device);
            if (options.ipv6)
                commands +=
                    fmt::format("addr add {}/64 dev {} nodad\n", ipv6_address(link, host), device);
            commands += fmt::format("link set dev {} up\n", device);
        }
        if (auto done = run_ip(space_name(options.name, host_name(host)), commands); !done)
            return done;
    }
    return {};
}

Result<void> make(const LabOptions& options) {
    if (auto done = make_spaces(options); !done) return done;
    if (auto done = make_links(options); !done) return done;
    if (auto done = make_addresses(options); !done) return done;
    auto done = run_program({"ip", "link", "set", "dev", "lo", "alias", shape_text(options)},
                            {space_name(options.name, host_name(0)), {}});
    if (!done) return std::move(done).error();
    return {};
}

Result<void> check(const LabOptions& options) {
    const auto refuse = [](std::string sentence) -> Result<void> {
        return {base::Code::InvalidArgument, std::move(sentence)};
    };
    if (!valid_lab_name(options.name))
        return refuse(
            fmt::format("'{}' is no name for a lab: at most 24 letters, digits and "
                        "underscores",
                        options.name));
    if (options.hosts < 2 || options.hosts > most_hosts)
        return refuse(fmt::format("{} hosts: a lab has from 2 to {}", options.hosts, most_hosts));
    if (options.links < 1 || options.links > most_links)
        return refuse(fmt::format("{} links: a lab has from 1 to {}", options.links, most_links));
    if (options.mtu < 1280 || options.mtu > 65535)
        return refuse(
            fmt::format("an MTU of {} bytes: it must be from 1280 to 65535", options.mtu));
    return {};
}

/// Names of labs that belong to a process: "t<pid>_<number>".
std::string own_name() {
    static std::atomic<unsigned> count{0};
    return fmt::format("t{}_{}", ::getpid(), count.fetch_add(1));
}

/// Labs whose process was killed before it could take them down.
void sweep() {
    for (const std::string& name : Lab::present()) {
        if (name[0] != 't') continue;
        pid_t pid = 0;
        const char* const end = name.data() + name.size();
        const auto [rest, error] = std::from_chars(name.data() + 1, end, pid);
        if (error != std::errc() || rest == end || *rest != '_' || pid <= 0) continue;
        if (::kill(pid, 0) != 0 && errno == ESRCH)
            // Another may be at it too; what matters is that somebody does it.
            static_cast<void>(Lab::take_down(name).ok());
    }
}

}  // namespace

Result<void> Lab::possible() {
    return check_system();
}

Result<Lab> Lab::up(LabOptions options) {
    if (auto done = check_system(); !done) return std::move(done).error();
    if (options.name.empty()) {
        sweep();
        options.name = own_name();
    }
    if (auto done = check(options); !done) return std::move(done).error();
    if (is_present(options.name)) {
        if (const auto there = read_shape(options.name)) {
            if (shape_text(*there) == shape_text(options)) return Lab(options, false);
            return {base::Code::InvalidState,
                    fmt::format("there is a lab '{}' already, but with {} hosts, {} links, MTU {} "
                                "and {} IPv6; take it down first, or choose another name",
                                options.name, there->hosts, there->links, there->mtu,
                                there->ipv6 ? "with" : "without")};
        }
        if (auto removed = take_down(options.name); !removed) return std::move(removed).error();
    }
    Lab lab(options, true);  // takes down what there is of it if something fails
    if (auto made = make(options); !made) return std::move(made).error();
    return lab;
}

Result<Lab> Lab::find(std::string_view name) {
    if (auto done = check_system(); !done) return std::move(done).error();
    if (!is_present(name))
        return {base::Code::NotFound,
                fmt::format("there is no lab '{}'; `via lab up` makes one", name)};
    auto options = read_shape(name);
    if (!options)
        return {base::Code::InvalidState,
                fmt::format("the lab '{}' is only half there; `via lab up` makes it anew, `via lab "
                            "down` removes it",
                            name)};
    return Lab(std::move(*options), false);
}

Result<bool> Lab::take_down(std::string_view name) {
    if (auto done = check_system(); !done) return std::move(done).error();
    bool was_there = false;
    Result<void> outcome;
    // All of it is tried: what one part refuses must not save the others.
    for (const SpaceName& one : present_spaces()) {
        if (one.lab != name) continue;
        was_there = true;
        const std::string space = space_name(one.lab, one.host);
        if (auto done = end_processes_in(space); !done) outcome = std::move(done);
        auto done = run_program({"ip", "netns", "delete", space});
        std::error_code error;
        if (!done && std::filesystem::exists(space_path(space), error))
            outcome = std::move(done).error();
        std::filesystem::remove_all(space_etc_folder(space), error);
        if (error)
            outcome = base::system_error(error.value(), "removing " + space_etc_folder(space));
    }
    if (!outcome) return std::move(outcome).error();
    return was_there;
}

std::vector<std::string> Lab::present() {
    std::vector<std::string> names;
    for (SpaceName& space : present_spaces())
        if (names.empty() || names.back() != space.lab) names.push_back(std::move(space.lab));
    return names;
}

Lab::Lab(Lab&& other) noexcept
    : options_(std::move(other.options_)), owned_(std::exchange(other.owned_, false)) {}

Lab::~Lab() {
    if (!owned_) return;
    if (const auto down = take_down(options_.name); !down)
        fmt::print(stderr, "the lab '{}' could not be taken down: {}\n", options_.name,
                   down.error().sentence);
}

Result<LabLink> Lab::find_link(unsigned number) const {
    if (number >= options_.links)
        return {base::Code::NotFound,
                fmt::format("the lab '{}' has no link {}; its links are 0 to {}", options_.name,
                            number, options_.links - 1)};
    return link(number);
}

std::string Lab::address(std::string_view host, unsigned link) const {
    return ipv4_address(link, host_number(host).value_or(0));
}

std::string Lab::address6(std::string_view host, unsigned link) const {
    return ipv6_address(link, host_number(host).value_or(0));
}

Result<std::string> Lab::space(std::string_view host) const {
    const auto number = host_number(host);
    if (!number || *number >= options_.hosts)
        return {base::Code::NotFound,
                fmt::format("the lab '{}' has no host '{}'; its hosts are a to {}", options_.name,
                            host, host_name(options_.hosts - 1))};
    return space_name(options_.name, host);
}

Result<void> Lab::enter(std::string_view host) const {
    auto name = space(host);
    if (!name) return std::move(name).error();
    auto door = SpaceDoor::open(name.value());
    if (!door) return std::move(door).error();
    if (const int error = door.value().enter(); error != 0)
        return base::system_error(error, "entering the namespace " + name.value());
    return {};
}

Result<void> Lab::in_host(std::string_view host, const std::function<void()>& what) const {
    Result<void> entered;
    std::thread([&] {
        entered = enter(host);
        if (entered) what();
    }).join();
    return entered;
}

Result<tool::child::Command> Lab::inside(std::string_view host,
                                         tool::child::Command command) const {
    auto name = space(host);
    if (!name) return std::move(name).error();
    auto door = SpaceDoor::open(name.value());
    if (!door) return std::move(door).error();
    const auto shared = std::make_shared<SpaceDoor>(std::move(door).value());
    command.before_exec = [shared, then = std::move(command.before_exec)] {
        const int error = shared->enter();
        return error == 0 && then ? then() : error;
    };
    return command;
}

Result<tool::child::Process> Lab::start(std::string_view host, tool::child::Command command) const {
    auto there = inside(host, std::move(command));
    if (!there) return std::move(there).error();
    return tool::child::Process::start(there.value());
}

Result<tool::child::Outcome> Lab::run(std::string_view host, std::vector<std::string> arguments,
                                      base::Deadline deadline) const {
    tool::child::Command command;
    command.arguments = std::move(arguments);
    auto process = start(host, std::move(command));
    if (!process) return std::move(process).error();
    return process.value().finish(deadline);
}

Result<LabStatus> Lab::status() const {
    LabStatus status;
    status.options = options_;
    for (unsigned host = 0; host < options_.hosts; ++host) {
        const std::string name = host_name(host);
        const std::string space = space_name(options_.name, name);
        status.hosts.push_back({name, space, processes_in(space)});
    }
    for (unsigned number = 0; number < options_.links; ++number) {
        auto ends = link(number).ends();
        if (!ends) return std::move(ends).error();
        status.links.push_back(std::move(ends).value());
    }
    return status;
}

}  // namespace via::lab
