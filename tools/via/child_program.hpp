// SPDX-License-Identifier: BSD-3-Clause
// Running other programs: pinned, with their output caught, and always ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

namespace via::tool::child {

struct Command {
    std::vector<std::string> arguments;    ///< the program first, a path or a name in PATH
    std::vector<std::string> environment;  ///< "NAME=value", added to this process's own
    std::string removed_prefix;            ///< variables of this process that begin so stay out
    std::optional<int> core;               ///< pin the program to it
    std::string input;                     ///< what it reads from its standard input
    /// Runs in the child before the program (system calls only); other than 0: it exits with 123.
    std::function<int()> before_exec;
};

/// The command as one would type it, for messages.
[[nodiscard]] std::string to_text(const Command& command);

struct Outcome {
    int exit_code = 0;  ///< 128 + n for an end by signal n
    std::string output;
    std::string errors;
};

/// A running program in a process group of its own. If the object goes away first, the group is
/// ended; if this process dies, the kernel ends the program.
class Process {
  public:
    [[nodiscard]] static base::Result<Process> start(const Command& command);
    Process(Process&& other) noexcept;
    Process& operator=(Process&&) = delete;
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    [[nodiscard]] bool running() const;
    /// Collects the output and waits for the end. Timeout: it was ended by force.
    [[nodiscard]] base::Result<Outcome> finish(base::Deadline deadline);

  private:
    Process() = default;
    void end() noexcept;

    std::string text_;
    pid_t pid_ = -1;
    base::UniqueFd pidfd_;
    base::UniqueFd output_;
    base::UniqueFd errors_;
};

/// Starts and finishes. An exit code other than 0 is an error that quotes the last words.
[[nodiscard]] base::Result<std::string> run(const Command& command, base::Deadline deadline);

/// The end of a program's words, on one line, for a message.
[[nodiscard]] std::string last_words(std::string_view text);

/// The path of a program in PATH; empty if there is none.
[[nodiscard]] std::string find_program(std::string_view name);

/// The folder in which the running program lies, so that its neighbours can be found.
[[nodiscard]] std::string own_folder();

}  // namespace via::tool::child
