// SPDX-License-Identifier: BSD-3-Clause
#include "system_programs.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "child_program.hpp"
#include "host_space.hpp"

namespace via::lab {
namespace {

using tool::child::Command;

struct Needed {
    const char* program;
    const char* package;
};
constexpr Needed needed[] = {
    {"ip", "iproute2"}, {"tc", "iproute2"}, {"nft", "nftables"}, {"ethtool", "ethtool"}};
constexpr std::uint64_t program_patience_milliseconds = 20'000;

/// Root in a container need not be root of the machine: it is tried, in a child that ends at once.
bool may_make_namespaces() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(::unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 ? 0 : 1);
    int status = 1;
    while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Users other than root often have no /usr/sbin in their PATH.
std::string find(const std::string& program) {
    std::string path = tool::child::find_program(program);
    for (const char* folder : {"/usr/sbin/", "/sbin/"})
        if (path.empty()) path = tool::child::find_program(folder + program);
    return path;
}

}  // namespace

base::Result<void> check_system() {
    for (const Needed& one : needed)
        if (find(one.program).empty())
            return {base::Code::NotFound,
                    fmt::format("the lab needs the program '{}', which is not installed here; on "
                                "Debian: apt-get install {}",
                                one.program, one.package)};
    if (::geteuid() != 0)
        return {base::Code::PermissionDenied,
                "the lab is made of network namespaces, which only root may make; run it as root "
                "or with sudo"};
    if (!may_make_namespaces())
        return {base::Code::PermissionDenied,
                "the lab is made of network namespaces, and this root may not make any (a "
                "container without CAP_SYS_ADMIN?)"};
    return {};
}

base::Result<std::string> run_program(std::vector<std::string> arguments,
                                      const Surroundings& surroundings) {
    Command command;
    command.arguments = std::move(arguments);
    const std::string name = command.arguments.at(0);
    command.arguments[0] = find(name);
    if (command.arguments[0].empty())
        return {base::Code::NotFound, fmt::format("there is no program '{}' here", name)};
    command.environment.emplace_back("LC_ALL=C");  // its words end up in sentences of ours
    command.input = surroundings.input;
    if (!surroundings.space.empty()) {
        auto door = SpaceDoor::open(surroundings.space);
        if (!door) return std::move(door).error();
        const auto shared = std::make_shared<SpaceDoor>(std::move(door).value());
        command.before_exec = [shared] { return shared->enter_network(); };
    }
    return tool::child::run(command,
                            base::Deadline::after_milliseconds(program_patience_milliseconds));
}

base::Result<void> run_ip(const std::string& space, const std::string& commands) {
    auto done = run_program({"ip", "-batch", "-"}, {space, commands});
    if (!done) return std::move(done).error();
    return {};
}

base::Result<void> run_nft(const std::string& space, const std::string& script) {
    auto done = run_program({"nft", "-f", "-"}, {space, script});
    if (!done) return std::move(done).error();
    return {};
}

}  // namespace via::lab
