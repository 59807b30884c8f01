// SPDX-License-Identifier: BSD-3-Clause
#include "host_space.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>

#include "names.hpp"

namespace via::lab {
namespace {

constexpr base::Nanoseconds time_to_end = 1'000'000'000;
constexpr base::Nanoseconds time_to_die = 5'000'000'000;

std::string process_name(pid_t pid) {
    std::string name = text_of_file(fmt::format("/proc/{}/comm", pid));
    while (!name.empty() && name.back() == '\n')
        name.pop_back();
    return name;
}

/// Processes whose network is that of the file at `path`, but not this one.
std::vector<pid_t> pids_in(const std::string& path) {
    std::vector<pid_t> pids;
    struct stat space {};
    if (::stat(path.c_str(), &space) != 0) return pids;
    std::error_code error;
    for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        pid_t pid = 0;
        const auto [rest, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (wrong != std::errc() || rest != name.data() + name.size() || pid == ::getpid())
            continue;
        struct stat its {};
        if (::stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &its) != 0) continue;
        if (its.st_dev == space.st_dev && its.st_ino == space.st_ino) pids.push_back(pid);
    }
    return pids;
}

base::Result<void> end_processes(const std::string& space,
                                 const std::function<bool(pid_t)>& wanted) {
    const std::string path = space_path(space);
    struct stat there {};
    struct stat here {};
    // The machine's own processes must never be meant, whatever the file has become.
    if (::stat(path.c_str(), &there) == 0 && ::stat("/proc/self/ns/net", &here) == 0 &&
        there.st_ino == here.st_ino && there.st_dev == here.st_dev)
        return {base::Code::InvalidState,
                fmt::format("{} is the network of this process itself; its processes were left "
                            "alone",
                            space)};
    const base::Nanoseconds start = base::machine_now();
    for (bool asked = false;;) {
        std::vector<pid_t> pids = pids_in(path);
        std::erase_if(pids, [&](pid_t pid) { return !wanted(pid); });
        if (pids.empty()) return {};
        const base::Nanoseconds waited = base::machine_now() - start;
        if (waited > time_to_die)
            return {base::Code::Timeout,
                    fmt::format("process {} ({}) in {} does not end, not even by SIGKILL",
                                pids.front(), process_name(pids.front()), space)};
        if (!asked || waited > time_to_end)
            for (const pid_t pid : pids)
                ::kill(pid, waited > time_to_end ? SIGKILL : SIGTERM);
        asked = true;
        const timespec pause{0, 5'000'000};
        ::nanosleep(&pause, nullptr);
    }
}

}  // namespace

base::Result<SpaceDoor> SpaceDoor::open(const std::string& space) {
    SpaceDoor door;
    const std::string path = space_path(space);
    door.space_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!door.space_.valid()) return base::system_error(errno, "opening the namespace " + path);
    if (const auto name = parse_space_name(space)) door.host_ = name->host;
    door.hosts_file_ = space_etc_folder(space) + "/hosts";
    if (::access(door.hosts_file_.c_str(), R_OK) != 0) door.hosts_file_.clear();
    return door;
}

int SpaceDoor::enter_network() const noexcept {
    return ::setns(space_.get(), CLONE_NEWNET) == 0 ? 0 : errno;
}

int SpaceDoor::enter() const noexcept {
    if (const int error = enter_network(); error != 0) return error;
    // Mounts of its own, which nobody else sees.
    if (::unshare(CLONE_NEWNS) != 0) return errno;
    if (::mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) != 0) return errno;
    // Launchers of MPI take hosts of one name for one host. Where there can be no names, programs
    // see the machine's.
    if (!host_.empty() && ::unshare(CLONE_NEWUTS) == 0)
        static_cast<void>(::sethostname(host_.data(), host_.size()));
    // /sys shows the devices of the network it was mounted in. Not every container has one to
    // replace; then programs see the old one.
    if (::umount2("/sys", MNT_DETACH) == 0)
        static_cast<void>(::mount("sysfs", "/sys", "sysfs", 0, nullptr));
    if (!hosts_file_.empty() &&
        ::mount(hosts_file_.c_str(), "/etc/hosts", "none", MS_BIND, nullptr) != 0)
        return errno;
    return 0;
}

std::string text_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();  // a bare buffer would throw when reading fails
    return text.str();
}

std::vector<ProcessInSpace> processes_in(const std::string& space) {
    std::vector<ProcessInSpace> processes;
    for (const pid_t pid : pids_in(space_path(space))) {
        ProcessInSpace process{pid, process_name(pid), {}};
        process.command = text_of_file(fmt::format("/proc/{}/cmdline", pid));
        while (!process.command.empty() && process.command.back() == '\0')
            process.command.pop_back();
        std::replace(process.command.begin(), process.command.end(), '\0', ' ');
        if (!process.name.empty()) processes.push_back(std::move(process));
    }
    return processes;
}

base::Result<void> end_processes_in(const std::string& space) {
    return end_processes(space, [](pid_t) { return true; });
}

base::Result<void> end_processes_in(const std::string& space, const std::string& name) {
    return end_processes(space, [&](pid_t pid) { return process_name(pid) == name; });
}

}  // namespace via::lab
