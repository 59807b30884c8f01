// SPDX-License-Identifier: BSD-3-Clause
#include "child_program.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace via::tool::child {

namespace {

struct Pipe {
    base::UniqueFd read;
    base::UniqueFd write;
};

base::Result<Pipe> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        return base::system_error(errno, "make a pipe for a program's output");
    }
    return Pipe{base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

/// What the program reads: a file in memory, so that nobody has to wait for anybody.
base::Result<base::UniqueFd> make_input(const std::string& text) {
    if (text.empty()) {
        base::UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!nothing.valid()) return base::system_error(errno, "open /dev/null");
        return nothing;
    }
    base::UniqueFd file(::memfd_create("via-input", MFD_CLOEXEC));
    if (!file.valid()) return base::system_error(errno, "make a program's input");
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        return base::system_error(errno, "write a program's input");
    }
    ::lseek(file.get(), 0, SEEK_SET);
    return file;
}

/// Takes what is there. False at the end of the stream.
bool drain(const base::UniqueFd& fd, std::string& text) {
    std::array<char, 4096> buffer;
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

std::vector<std::string> child_environment(const Command& command) {
    std::vector<std::string> result;
    const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (!command.removed_prefix.empty() && text.starts_with(command.removed_prefix)) continue;
        bool replaced = false;
        for (const auto& own : command.environment)
            replaced |= name_of(own) == name_of(text);
        if (!replaced) result.emplace_back(text);
    }
    result.insert(result.end(), command.environment.begin(), command.environment.end());
    return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (auto& text : texts)
        result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

}  // namespace

std::string to_text(const Command& command) {
    std::string text;
    for (const auto& argument : command.arguments) {
        if (!text.empty()) text += ' ';
        text += argument;
    }
    return text;
}

base::Result<Process> Process::start(const Command& command) {
    Process process;
    process.text_ = to_text(command);
    const std::string path = find_program(command.arguments.at(0));
    if (path.empty()) {
        return {base::Code::NotFound, command.arguments[0] + ": no such program"};
    }
    auto output = make_pipe();
    if (!output) return std::move(output).error();
    auto errors = make_pipe();
    if (!errors) return std::move(errors).error();
    auto input = make_input(command.input);
    if (!input) return std::move(input).error();

    // All memory is taken before the fork; the child only makes system calls.
    std::vector<std::string> arguments = command.arguments;
    std::vector<std::string> environment = child_environment(command);
    const std::vector<char*> argument_pointers = pointers(arguments);
    const std::vector<char*> environment_pointers = pointers(environment);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (command.core) CPU_SET(static_cast<unsigned>(*command.core), &cores);

    const pid_t parent = ::getpid();
    process.pid_ = ::fork();
    if (process.pid_ < 0) return base::system_error(errno, "start " + process.text_);
    if (process.pid_ == 0) {
        ::setpgid(0, 0);
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (::getppid() != parent) ::_exit(125);
        if (command.core && ::sched_setaffinity(0, sizeof cores, &cores) != 0) ::_exit(124);
        if (command.before_exec && command.before_exec() != 0) ::_exit(123);
        ::dup2(input.value().get(), STDIN_FILENO);
        ::dup2(output.value().write.get(), STDOUT_FILENO);
        ::dup2(errors.value().write.get(), STDERR_FILENO);
        ::execve(path.c_str(), argument_pointers.data(), environment_pointers.data());
        ::_exit(126);
    }
    ::setpgid(process.pid_, process.pid_);
    process.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid_, 0)));
    if (!process.pidfd_.valid()) return base::system_error(errno, "watch " + process.text_);
    process.output_ = std::move(output.value().read);
    process.errors_ = std::move(errors.value().read);
    ::fcntl(process.output_.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(process.errors_.get(), F_SETFL, O_NONBLOCK);
    return process;
}

Process::Process(Process&& other) noexcept
    : text_(std::move(other.text_)),
      pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)) {}

Process::~Process() {
    end();
}

bool Process::running() const {
    pollfd watch{pidfd_.get(), POLLIN, 0};
    return pid_ > 0 && ::poll(&watch, 1, 0) == 0;
}

void Process::end() noexcept {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGTERM);
    pollfd watch{pidfd_.get(), POLLIN, 0};
    if (!pidfd_.valid() || ::poll(&watch, 1, 500) <= 0) ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    // Members of the group that outlived their leader.
    ::kill(-pid_, SIGKILL);
    pid_ = -1;
}

base::Result<Outcome> Process::finish(base::Deadline deadline) {
    Outcome outcome;
    bool ended = false;
    while (!ended) {
        // A daemon that the program started may hold the pipes open: the program's end counts.
        std::array<pollfd, 3> watch{pollfd{pidfd_.get(), POLLIN, 0},
                                    pollfd{output_.get(), POLLIN, 0},
                                    pollfd{errors_.get(), POLLIN, 0}};
        const int ready = ::poll(watch.data(), watch.size(), deadline.poll_milliseconds());
        if (ready < 0 && errno != EINTR) return base::system_error(errno, "wait for " + text_);
        if (ready == 0 && deadline.expired()) {
            end();
            return {base::Code::Timeout, text_ + ": no end in time, so it was ended by force; " +
                                             last_words(outcome.output + "\n" + outcome.errors)};
        }
        if (watch[1].revents != 0 && !drain(output_, outcome.output)) output_.reset();
        if (watch[2].revents != 0 && !drain(errors_, outcome.errors)) errors_.reset();
        ended = (watch[0].revents & POLLIN) != 0;
    }
    const auto drain_rest = [](const base::UniqueFd& fd, std::string& text) {
        if (!fd.valid()) return;
        for (std::size_t before = text.size() + 1; text.size() != before;) {
            before = text.size();
            drain(fd, text);
        }
    };
    drain_rest(output_, outcome.output);
    drain_rest(errors_, outcome.errors);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return outcome;
}

base::Result<std::string> run(const Command& command, base::Deadline deadline) {
    auto process = Process::start(command);
    if (!process) return std::move(process).error();
    auto outcome = process.value().finish(deadline);
    if (!outcome) return std::move(outcome).error();
    if (outcome.value().exit_code != 0) {
        return {base::Code::System,
                to_text(command) + ": exit code " + std::to_string(outcome.value().exit_code) +
                    "; " + last_words(outcome.value().output + "\n" + outcome.value().errors)};
    }
    return std::move(outcome.value().output);
}

std::string last_words(std::string_view text) {
    constexpr std::size_t most = 300;
    std::string line;
    for (const char character : text)
        line += character == '\n' || character == '\t' ? ' ' : character;
    while (!line.empty() && line.back() == ' ')
        line.pop_back();
    if (line.find_first_not_of(' ') == std::string::npos) return "it said nothing";
    if (line.size() > most) line = "… " + line.substr(line.size() - most);
    return "its last words: " + line.substr(line.find_first_not_of(' '));
}

std::string find_program(std::string_view name) {
    if (name.find('/') != std::string_view::npos) {
        std::string path(name);
        if (::access(path.c_str(), X_OK) != 0) path.clear();
        return path;
    }
    const char* search = ::getenv("PATH");
    std::string_view rest = search == nullptr ? "/usr/bin:/bin" : search;
    while (!rest.empty()) {
        const auto end = rest.find(':');
        std::string path = std::string(rest.substr(0, end)) + "/" + std::string(name);
        if (::access(path.c_str(), X_OK) == 0) return path;
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return {};
}

std::string own_folder() {
    std::array<char, PATH_MAX> path;
    const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
    if (length <= 0) return ".";
    const std::string_view whole(path.data(), static_cast<std::size_t>(length));
    return std::string(whole.substr(0, whole.find_last_of('/')));
}

}  // namespace via::tool::child
