// SPDX-License-Identifier: BSD-3-Clause
#include "program.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace via::tool::test {

Program::Program(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment) {
    int output[2];
    int errors[2];
    if (pipe2(output, O_CLOEXEC) != 0) return;
    if (pipe2(errors, O_CLOEXEC) != 0) {
        close(output[0]);
        close(output[1]);
        return;
    }
    pid_ = fork();
    if (pid_ == 0) {
        dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
        dup2(output[1], STDOUT_FILENO);
        dup2(errors[1], STDERR_FILENO);
        for (const std::string& one : environment)
            putenv(strdup(one.c_str()));
        std::vector<char*> words{const_cast<char*>(VIA_TOOL_PATH)};
        for (const std::string& argument : arguments)
            words.push_back(const_cast<char*>(argument.c_str()));
        words.push_back(nullptr);
        execv(VIA_TOOL_PATH, words.data());
        _exit(127);
    }
    close(output[1]);
    close(errors[1]);
    output_ = base::UniqueFd(output[0]);
    errors_ = base::UniqueFd(errors[0]);
}

Program::~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Outcome Program::wait(base::Deadline deadline) {
    Outcome outcome;
    const auto drain = [](base::UniqueFd& from, std::string& to) {
        char buffer[65536];
        const ssize_t count = read(from.get(), buffer, sizeof buffer);
        if (count > 0)
            to.append(buffer, static_cast<std::size_t>(count));
        else if (count == 0 || errno != EINTR)
            from.reset();
    };
    while ((output_.valid() || errors_.valid()) && !deadline.expired()) {
        pollfd waits[2] = {{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}};
        if (poll(waits, 2, deadline.poll_milliseconds()) <= 0) continue;
        if (waits[0].revents != 0) drain(output_, outcome.output);
        if (waits[1].revents != 0) drain(errors_, outcome.errors);
    }
    if (output_.valid() || errors_.valid()) {
        outcome.errors += "\n(the test gave up waiting for its output to end)";
        return outcome;
    }
    int status = 0;
    for (;;) {
        const pid_t ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_) break;
        if (deadline.expired()) return outcome;
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
    pid_ = -1;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
}

Outcome run(const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment) {
    Program program(arguments, environment);
    return program.wait(base::Deadline::after_milliseconds(60'000));
}

}  // namespace via::tool::test
