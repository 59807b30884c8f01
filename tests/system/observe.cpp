// SPDX-License-Identifier: BSD-3-Clause
#include "system/observe.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

base::Deadline soon() {
    return base::Deadline::after_milliseconds(patience_ms);
}

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_number(const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(),
                                        [](char digit) { return digit >= '0' && digit <= '9'; });
}

}  // namespace

ka::AgentStatus agent_status() {
    auto client = ka::AgentClient::attach_if_running({}, soon());
    if (!client) throw std::runtime_error(client.error().sentence);
    auto status = client.value()->status();
    if (!status) throw std::runtime_error(status.error().sentence);
    return status.value();
}

ka::ProcessStatus own_entry(const ka::AgentStatus& status) {
    for (const ka::ProcessStatus& process : status.processes)
        if (process.pid == getpid()) return process;
    return {};
}

bool agent_holds_nothing() {
    const ka::AgentStatus status = agent_status();
    const ka::ProcessStatus own = own_entry(status);
    return status.processes.size() <= 1 && (status.processes.empty() || own.pid == getpid()) &&
           own.vis == 0 && own.connections == 0 && own.waiting == 0 && own.regions == 0 &&
           own.registered_bytes == 0 && own.kmem_bytes == 0;
}

std::size_t open_descriptors(pid_t pid) {
    return names_in("/proc/" + std::to_string(pid) + "/fd").size();
}

std::vector<pid_t> processes_of_this_test() {
    const std::string wanted =
        std::string("VIA_AGENT_SOCKET=") + std::getenv("VIA_AGENT_SOCKET") + '\0';
    std::vector<pid_t> found;
    for (const std::string& name : names_in("/proc")) {
        if (!is_number(name) || name == std::to_string(getpid())) continue;
        const std::string environment = contents("/proc/" + name + "/environ") + '\0';
        if (environment.find(wanted) != std::string::npos) found.push_back(std::stoi(name));
    }
    return found;
}

std::set<std::string> names_in(const std::string& folder) {
    std::set<std::string> names;
    std::error_code failure;
    for (std::filesystem::directory_iterator next(folder, failure), end; !failure && next != end;
         next.increment(failure))
        names.insert(next->path().filename().string());
    return names;
}

std::set<std::string> shared_memory_names() {
    std::set<std::string> names = names_in("/dev/shm");
    std::erase_if(names, [](const std::string& name) {
        return name.find("via") == std::string::npos && name.find("vip") == std::string::npos;
    });
    return names;
}

OwnTemporaryFolder::OwnTemporaryFolder() {
    if (const char* given = std::getenv("TMPDIR")) before_ = given;
    path_ = (before_.empty() ? std::string("/tmp") : before_) + "/via_system_XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
    setenv("TMPDIR", path_.c_str(), 1);
}

OwnTemporaryFolder::~OwnTemporaryFolder() {
    if (before_.empty())
        unsetenv("TMPDIR");
    else
        setenv("TMPDIR", before_.c_str(), 1);
    EXPECT_EQ(rmdir(path_.c_str()), 0) << path_ << " is not empty";
}

std::uint64_t waited_for_processor_ns(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/schedstat");
    std::uint64_t ran = 0;
    std::uint64_t waited = 0;
    file >> ran >> waited;
    return waited;
}

pid_t service_thread() {
    for (const std::string& name : names_in("/proc/self/task"))
        if (contents("/proc/self/task/" + name + "/comm") == "viaduct\n") return std::stoi(name);
    return -1;
}

}  // namespace via::test
