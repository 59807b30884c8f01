// SPDX-License-Identifier: BSD-3-Clause
#include "mpi_launch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace via::tool {

namespace {

/// "name=value", or a name alone, which is true.
std::pair<std::string, std::string> parameter_of(const std::string& setting) {
    const auto middle = setting.find('=');
    if (middle == std::string::npos) return {setting, "1"};
    return {setting.substr(0, middle), setting.substr(middle + 1)};
}

/// The words of mpirun, in the order in which they are said.
class Words {
  public:
    /// Of parameters that the user sets ours are left out: mpirun takes none twice.
    explicit Words(std::vector<std::string>& words, const std::vector<std::string>& of_user = {})
        : words_(words) {
        for (const std::string& setting : of_user)
            of_user_.push_back(parameter_of(setting).first);
    }
    void add(std::string word) { words_.push_back(std::move(word)); }
    void option(std::string name, std::string value) {
        add(std::move(name));
        add(std::move(value));
    }
    void parameter(std::string name, std::string value) {
        if (std::find(of_user_.begin(), of_user_.end(), name) != of_user_.end()) return;
        add("--mca");
        option(std::move(name), std::move(value));
    }

  private:
    std::vector<std::string>& words_;
    std::vector<std::string> of_user_;
};

std::string device_list(unsigned links) {
    std::string names;
    for (unsigned link = 0; link < links; ++link)
        names += fmt::format("{}link{}", link == 0 ? "" : ",", link);
    return names;
}

unsigned ranks_per_host(const MpiLaunch& launch) {
    const unsigned hosts = launch.lab->hosts;
    return std::max(1U, (launch.ranks.value_or(hosts) + hosts - 1) / hosts);
}

std::string lab_hosts(const MpiLaunch& launch) {
    std::string list;
    for (unsigned host = 0; host < launch.lab->hosts; ++host)
        list += fmt::format("{}{}:{}", host == 0 ? "" : ",", static_cast<char>('a' + host),
                            ranks_per_host(launch));
    return list;
}

/// Windows: osc/rdma on the provider; osc/sm alone has windows of shared memory.
void add_windows(Words& words) {
    words.parameter("osc", "rdma,sm");
    words.parameter("btl", "self,ofi");
}

void add_transport(Words& words, const MpiLaunch& launch) {
    switch (launch.transport) {
        case MpiTransport::Via:
            words.parameter("mca_base_component_path", launch.component_path);
            words.parameter("pml", "via");
            if (!launch.provider_folder.empty()) {
                add_windows(words);
            } else {
                words.parameter("osc", "pt2pt,sm");
                words.parameter("btl", "self");
            }
            break;
        case MpiTransport::Fabric:
            words.parameter("pml", "cm");
            words.parameter("mtl", "ofi");
            words.parameter("mtl_ofi_provider_include", "via");
            add_windows(words);
            break;
        case MpiTransport::SharedMemory:
            words.parameter("pml", "ob1");
            words.parameter("btl", "self,vader");
            break;
        case MpiTransport::Tcp:
            words.parameter("pml", "ob1");
            words.parameter("btl", "self,tcp");
            words.parameter("osc", "rdma,pt2pt");
            break;
    }
}

void add_lab(Words& words, const MpiLaunch& launch) {
    const MpiLaunch::Lab& lab = *launch.lab;
    words.option("--host", lab_hosts(launch));
    words.option("--map-by", "node");
    // Every host would give its first rank the first core, and they are the same cores.
    words.option("--bind-to", "none");
    words.parameter("plm_rsh_agent", fmt::format("{} lab shell --name {}", lab.via, lab.name));
    words.parameter("oob_tcp_if_include", "link0");
    if (launch.transport == MpiTransport::Tcp)
        words.parameter("btl_tcp_if_include", device_list(lab.links));
    // No host knows that the others use its cores.
    if (launch.ranks.value_or(lab.hosts) > launch.cores)
        words.parameter("mpi_yield_when_idle", "1");
}

}  // namespace

std::vector<std::string> mpi_transport_words(const MpiLaunch& launch) {
    std::vector<std::string> words;
    Words to(words);
    add_transport(to, launch);
    return words;
}

MpiCommand mpi_command(const MpiLaunch& launch) {
    MpiCommand command;
    std::vector<std::string> passed_on;
    const auto set = [&](std::string name, std::string value) {
        passed_on.push_back(name);
        command.environment.emplace_back(std::move(name), std::move(value));
    };
    if (is_viaduct(launch.transport)) {
        if (!launch.provider_folder.empty()) {
            set("FI_PROVIDER", "via");
            set("FI_PROVIDER_PATH", launch.provider_folder);
        }
        if (!launch.agent_program.empty()) set("VIA_AGENT_PROGRAM", launch.agent_program);
        if (launch.lab && launch.lab->fewer_links_than_there)
            set("VIA_NET_INTERFACES", device_list(launch.lab->links));
    }
    for (const std::string& name : launch.passed_on)
        if (std::find(passed_on.begin(), passed_on.end(), name) == passed_on.end())
            passed_on.push_back(name);

    Words words(command.arguments, launch.more_settings);
    words.add(launch.launcher);
    if (launch.root) words.add("--allow-run-as-root");
    if (launch.ranks) words.option("-n", std::to_string(*launch.ranks));
    if (launch.lab) {
        add_lab(words, launch);
    } else if (!launch.hosts.empty()) {
        words.option("--host", launch.hosts);
    } else if (launch.ranks.value_or(1) > launch.cores) {
        words.add("--oversubscribe");
    }
    add_transport(words, launch);
    for (const std::string& setting : launch.more_settings) {
        auto [name, value] = parameter_of(setting);
        words.add("--mca");
        words.option(std::move(name), std::move(value));
    }
    for (const std::string& name : passed_on)
        words.option("-x", name);
    command.arguments.insert(command.arguments.end(), launch.program.begin(), launch.program.end());
    return command;
}

std::string shell_quoted(std::string_view word) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%^";
    if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos)
        return std::string(word);
    std::string quoted = "'";
    for (const char letter : word) {
        if (letter == '\'')
            quoted += "'\\''";
        else
            quoted += letter;
    }
    return quoted + "'";
}

std::string shell_text(const MpiCommand& command) {
    std::string text;
    for (const auto& [name, value] : command.environment)
        text += fmt::format("{}={} ", name, shell_quoted(value));
    for (std::size_t index = 0; index < command.arguments.size(); ++index)
        text += (index == 0 ? "" : " ") + shell_quoted(command.arguments[index]);
    return text;
}

std::string mpi_launch_summary(const MpiLaunch& launch) {
    std::string text;
    if (launch.ranks)
        text += fmt::format("{} rank{} of {}", *launch.ranks, *launch.ranks == 1 ? "" : "s",
                            launch.program.front());
    else
        text += launch.program.front();
    text += " by Open MPI";
    if (launch.lab)
        text += fmt::format(" in hosts a to {} of the lab '{}' over {} link{}",
                            static_cast<char>('a' + launch.lab->hosts - 1), launch.lab->name,
                            launch.lab->links, launch.lab->links == 1 ? "" : "s");
    else if (!launch.hosts.empty())
        text += " on " + launch.hosts;
    switch (launch.transport) {
        case MpiTransport::Via:
            text += fmt::format("; messages go by Viaduct's component of Open MPI (pml/via{})",
                                launch.provider_folder.empty()
                                    ? ", windows too"
                                    : "), windows by libfabric's provider via (" +
                                          launch.provider_folder + "/libvia-fi.so");
            break;
        case MpiTransport::Fabric:
            text += fmt::format(
                "; messages and windows go by libfabric's provider via ({}/libvia-fi.so)",
                launch.provider_folder);
            if (!launch.no_component.empty()) text += ", since " + launch.no_component;
            break;
        case MpiTransport::SharedMemory:
            text += "; messages go by Open MPI's own shared memory, not by Viaduct";
            break;
        case MpiTransport::Tcp:
            text += "; messages go by Open MPI's own TCP, not by Viaduct";
            break;
    }
    if (!launch.lab && launch.hosts.empty() && launch.ranks.value_or(1) > launch.cores)
        text += fmt::format("; {} cores are shared", launch.cores);
    return text + ". --explain shows the command.";
}

std::vector<std::string> settings_in(const std::vector<std::string>& environment) {
    std::vector<std::string> names;
    for (const std::string& entry : environment) {
        if (!entry.starts_with("VIA_") && !entry.starts_with("FI_")) continue;
        names.push_back(entry.substr(0, entry.find('=')));
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

}  // namespace via::tool
