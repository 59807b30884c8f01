// SPDX-License-Identifier: BSD-3-Clause
#include "information.hpp"

#include <fmt/format.h>
#include <string.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/settings.hpp"
#include "command.hpp"
#include "cpu_choice.hpp"
#include "ka/client.hpp"
#include "network_information.hpp"
#include "probes.hpp"
#include "size_list.hpp"
#include "supervisor.hpp"
#include "text_table.hpp"
#include "vipl_objects.hpp"

namespace via::tool {
namespace {

// VIPL cannot list devices, so the known names are tried.
constexpr std::array device_names{"shm0", "net0", "auto", "lanai4", "lanai9", "rhinet1"};
// What other providers called theirs.
constexpr std::array alias_names{"/dev/via_lo", "/etc/via_lo", "/dev/via_eth0", "/dev/clanvi0",
                                 "VINIC",       "VINIC0",      "nic0",          "\\\\.\\VI1"};

nlohmann::json as_json(const Finding& finding) {
    return {{"name", finding.name}, {"works", finding.works}, {"detail", finding.detail}};
}

nlohmann::json number_or_null(std::uint64_t value) {
    return value == std::numeric_limits<std::uint64_t>::max() ? nlohmann::json()
                                                              : nlohmann::json(value);
}

std::vector<std::string_view> level_names(VIP_RELIABILITY_LEVEL mask) {
    std::vector<std::string_view> names;
    if ((mask & VIP_SERVICE_UNRELIABLE) != 0) names.push_back("unreliable");
    if ((mask & VIP_SERVICE_RELIABLE_DELIVERY) != 0) names.push_back("delivery");
    if ((mask & VIP_SERVICE_RELIABLE_RECEPTION) != 0) names.push_back("reception");
    return names;
}

nlohmann::json as_json(const VIP_NIC_ATTRIBUTES& nic) {
    std::string address;
    for (std::size_t i = 0; i < nic.NicAddressLen; ++i)
        address += fmt::format("{}{:02x}", i == 0 ? "" : ":", nic.LocalNicAddress[i]);
    return {{"Name", std::string(nic.Name, strnlen(nic.Name, sizeof nic.Name))},
            {"HardwareVersion", nic.HardwareVersion},
            {"ProviderVersion", nic.ProviderVersion},
            {"NicAddressLen", nic.NicAddressLen},
            {"LocalNicAddress", address},
            {"ThreadSafe", nic.ThreadSafe != VIP_FALSE},
            {"MaxDiscriminatorLen", nic.MaxDiscriminatorLen},
            {"MaxRegisterBytes", nic.MaxRegisterBytes},
            {"MaxRegisterRegions", nic.MaxRegisterRegions},
            {"MaxRegisterBlockBytes", nic.MaxRegisterBlockBytes},
            {"MaxVI", nic.MaxVI},
            {"MaxDescriptorsPerQueue", nic.MaxDescriptorsPerQueue},
            {"MaxSegmentsPerDesc", nic.MaxSegmentsPerDesc},
            {"MaxCQ", nic.MaxCQ},
            {"MaxCQEntries", nic.MaxCQEntries},
            {"MaxTransferSize", nic.MaxTransferSize},
            {"NativeMTU", nic.NativeMTU},
            {"MaxPtags", nic.MaxPtags},
            {"ReliabilityLevelSupport", level_names(nic.ReliabilityLevelSupport)},
            {"RDMAReadSupport", level_names(nic.RDMAReadSupport)}};
}

nlohmann::json agent_information() {
    auto client = ka::AgentClient::attach_if_running({}, base::Deadline::after_milliseconds(2000));
    if (!client) {
        if (client.error().code == base::Code::NotFound)
            return {{"running", false}, {"detail", "the first process that needs one starts it"}};
        return {{"running", false}, {"detail", client.error().sentence}};
    }
    const auto status = client.value()->status();
    if (!status) return {{"running", true}, {"detail", status.error().sentence}};
    return {{"running", true},
            {"pid", status.value().pid},
            {"version", status.value().version},
            {"socket", printable(status.value().socket)},
            {"on_demand", status.value().on_demand},
            {"huge_pages", status.value().huge_pages},
            {"net_port", status.value().net_port},
            {"net_key", status.value().net_key},
            {"net_problem", printable(status.value().net_problem)},
            {"processes", status.value().processes.size()}};
}

/// Devices are opened in a process of their own: this one stays fit for forking, and a device that
/// hangs cannot hang it.
nlohmann::json device_information() {
    nlohmann::json found{{"devices", nlohmann::json::array()},
                         {"aliases", nlohmann::json::object()}};
    SupervisorOptions options;
    options.quiet_limit = 10'000'000'000;
    options.show_progress = false;
    options.on_report = [&](const nlohmann::json& report) {
        if (report.contains("device")) found["devices"].push_back(report["device"]);
        if (report.contains("alias")) found["aliases"].update(report["alias"]);
        if (report.contains("problem")) found["problem"] = report["problem"];
    };
    const auto outcome = run_sides(
        {{"look at the devices",
          {},
          [&](SideReporter& reporter) -> base::Result<void> {
              reporter.stage("opening devices");
              std::string first_problem;
              bool any = false;
              for (const char* name : device_names) {
                  auto nic = Nic::open(name);
                  if (nic) {
                      any = true;
                      reporter.report({{"device", as_json(nic.value()->attributes())}});
                  } else if (first_problem.empty()) {
                      first_problem = nic.error().sentence;
                  }
              }
              if (!any) {
                  reporter.report({{"problem", first_problem}});
                  return {};
              }
              for (const char* name : alias_names) {
                  auto nic = Nic::open(name);
                  if (!nic) continue;
                  const VIP_NIC_ATTRIBUTES& attributes = nic.value()->attributes();
                  reporter.report(
                      {{"alias",
                        {{name, std::string(attributes.Name,
                                            strnlen(attributes.Name, sizeof attributes.Name))}}}});
              }
              return {};
          }}},
        options);
    if (!outcome) found["problem"] = outcome.error().sentence;
    return found;
}

/// The ways a message can take inside a host, from the facilities it needs.
nlohmann::json copy_paths(const Finding& memory_file, const Finding& cma) {
    const std::string& forced = base::Settings::get().text("VIA_SHM_PATH");
    const auto large = [&](std::string_view name) {
        return forced == "auto" || forced == name
                   ? std::string()
                   : fmt::format("; not used, because VIA_SHM_PATH is {}", forced);
    };
    const std::string needs = memory_file.works ? std::string() : "; " + memory_file.detail;
    const bool inline_allowed = base::Settings::get().flag("VIA_SHM_INLINE");
    return nlohmann::json::array(
        {{{"name", "inline"},
          {"works", memory_file.works && inline_allowed},
          {"detail", std::string("small messages inside one cache line") +
                         (inline_allowed ? "" : "; not used, because VIA_SHM_INLINE is 0") +
                         needs}},
         {{"name", "ring"},
          {"works", memory_file.works},
          {"detail", "through the channel's byte ring, copied twice" + needs}},
         {{"name", "kmem"},
          {"works", memory_file.works},
          {"detail", "straight into memory from VipxAllocMem, copied once, no system call" +
                         large("kmem") + needs}},
         {{"name", "cma"},
          {"works", cma.works},
          {"detail",
           cma.works ? "straight between any memory, copied once by the kernel" + large("cma")
                     : cma.detail + "; large messages from ordinary memory go through the ring"}}});
}

std::string mark(const nlohmann::json& works) {
    return works.get<bool>() ? "yes" : "no";
}

std::string limit_text(const nlohmann::json& value) {
    return value.is_null() ? "unlimited" : fmt::format("{}", value.get<std::uint64_t>());
}

std::string join(const nlohmann::json& list, std::string_view separator = ", ") {
    std::string text;
    for (const nlohmann::json& one : list) {
        if (!text.empty()) text += separator;
        text += one.is_string() ? one.get<std::string>() : one.dump();
    }
    return text.empty() ? "none" : text;
}

std::string describe_findings(const nlohmann::json& findings) {
    TextTable table;
    table.add_column("", Align::Left);
    table.add_column("works", Align::Left);
    table.add_column("how or why not", Align::Left);
    for (const nlohmann::json& finding : findings)
        table.add_row({finding["name"].get<std::string>(), mark(finding["works"]),
                       finding["detail"].get<std::string>()});
    return table.draw("  ");
}

std::string describe_agent(const nlohmann::json& agent) {
    if (!agent["running"].get<bool>())
        return fmt::format("not running ({})", agent["detail"].get<std::string>());
    if (!agent.contains("pid"))
        return fmt::format("running, but {}", agent["detail"].get<std::string>());
    return fmt::format("viad {} as process {}{}, {} processes attached",
                       agent["version"].get<std::string>(), agent["pid"].get<int>(),
                       agent["on_demand"].get<bool>() ? ", started on demand" : "",
                       agent["processes"].get<std::size_t>());
}

std::string describe_machine_line(const nlohmann::json& machine) {
    std::string line = fmt::format("{}, {}", machine["kernel"].get<std::string>(),
                                   machine["architecture"].get<std::string>());
    if (!machine["processor"].get<std::string>().empty())
        line += ", " + machine["processor"].get<std::string>();
    line +=
        fmt::format(", {} MB of memory", machine["memory_bytes"].get<std::uint64_t>() / 1'000'000);
    if (!machine["surroundings"].get<std::string>().empty())
        line += ", in a " + machine["surroundings"].get<std::string>();
    return line;
}

}  // namespace

nlohmann::json collect_information() {
    const Machine machine = describe_machine();
    const Finding memory_file = probe_memory_file();
    const Finding cma = probe_cma();
    nlohmann::json information{{"version", version_text()},
                               {"machine",
                                {{"kernel", machine.kernel},
                                 {"architecture", machine.architecture},
                                 {"processor", machine.processor},
                                 {"page_bytes", machine.page_bytes},
                                 {"cache_line_bytes", machine.cache_line_bytes},
                                 {"memory_bytes", machine.memory_bytes},
                                 {"surroundings", machine.surroundings}}},
                               {"copy_paths", copy_paths(memory_file, cma)},
                               {"facilities",
                                {as_json(memory_file), as_json(cma), as_json(probe_huge_pages()),
                                 as_json(probe_reserved_huge_pages()), as_json(probe_futex()),
                                 as_json(probe_membarrier()), as_json(probe_pidfd())}},
                               {"processors", nlohmann::json::array()},
                               {"limits", nlohmann::json::array()},
                               // Before the devices, because opening one starts an agent.
                               {"agent", agent_information()}};
    for (const Processor& processor : usable_processors())
        information["processors"].push_back({{"number", processor.number},
                                             {"core", processor.core},
                                             {"package", processor.package}});
    for (const Limit& limit : resource_limits())
        information["limits"].push_back({{"name", limit.name},
                                         {"meaning", limit.meaning},
                                         {"now", number_or_null(limit.now)},
                                         {"most", number_or_null(limit.most)}});
    information["network"] = network_information(information["agent"]);
    information.update(device_information());
    return information;
}

std::string describe_information(const nlohmann::json& information, bool brief) {
    std::string text = fmt::format("Viaduct {} on {}\n", information["version"].get<std::string>(),
                                   describe_machine_line(information["machine"]));
    std::vector<std::string> numbers;
    for (const nlohmann::json& processor : information["processors"])
        numbers.push_back(processor["number"].dump());
    text += fmt::format("processors to use: {}\n", join(numbers));
    text += fmt::format("kernel agent: {}\n", describe_agent(information["agent"]));
    if (brief) {
        std::string devices;
        for (const nlohmann::json& device : information["devices"])
            devices += (devices.empty() ? "" : ", ") + device["Name"].get<std::string>();
        std::string paths;
        for (const nlohmann::json& path : information["copy_paths"])
            paths += fmt::format("{}{} {}", paths.empty() ? "" : ", ",
                                 path["name"].get<std::string>(), mark(path["works"]));
        text +=
            fmt::format("devices: {}\ncopy paths: {}\n", devices.empty() ? "none" : devices, paths);
        std::string interfaces;
        for (const nlohmann::json& one : information["network"]["interfaces"])
            if (one["used"].get<bool>())
                interfaces += (interfaces.empty() ? "" : ", ") + one["name"].get<std::string>();
        text += fmt::format("interfaces to other hosts: {}\n",
                            interfaces.empty() ? "none" : printable(interfaces));
        if (information.contains("problem"))
            text += fmt::format("problem: {}\n", information["problem"].get<std::string>());
        return text;
    }

    text += "\nCopy paths inside this host\n" + describe_findings(information["copy_paths"]);
    text += "\nBetween hosts\n" + describe_network(information["network"]);
    text += "\nWhat the kernel offers\n" + describe_findings(information["facilities"]);
    text += "\nLimits of this process\n";
    TextTable limits;
    limits.add_column("", Align::Left);
    limits.add_column("now");
    limits.add_column("at most");
    limits.add_column("", Align::Left);
    for (const nlohmann::json& limit : information["limits"])
        limits.add_row({limit["name"].get<std::string>(), limit_text(limit["now"]),
                        limit_text(limit["most"]), limit["meaning"].get<std::string>()});
    text += limits.draw("  ");

    for (const nlohmann::json& device : information["devices"]) {
        text += fmt::format("\nDevice {}\n", device["Name"].get<std::string>());
        TextTable attributes;
        attributes.add_column("attribute", Align::Left);
        attributes.add_column("value", Align::Left);
        for (const auto& [name, value] : device.items())
            attributes.add_row({name, value.is_array()    ? join(value)
                                      : value.is_string() ? value.get<std::string>()
                                                          : value.dump()});
        text += attributes.draw("  ");
    }
    if (information["devices"].empty()) text += "\nNo device can be opened.\n";
    if (information.contains("problem"))
        text += fmt::format("  {}\n", information["problem"].get<std::string>());
    if (!information["aliases"].empty()) {
        text += "\nOther names for the devices\n";
        for (const auto& [alias, device] : information["aliases"].items())
            text += fmt::format("  {} is {}\n", alias, device.get<std::string>());
    }
    return text;
}

}  // namespace via::tool
