// SPDX-License-Identifier: BSD-3-Clause
// Runs the real program `via` and catches what it prints.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"

namespace via::tool::test {

struct Outcome {
    int status = -1;  ///< exit status; 128 + n: ended by signal n; -1: it had to be killed
    std::string output;
    std::string errors;

    /// The output as JSON; discarded if it is none.
    [[nodiscard]] nlohmann::json json() const {
        return nlohmann::json::parse(output, nullptr, false);
    }
};

/// A run of the program that can be waited for. Killed when it goes out of scope.
class Program {
  public:
    /// `environment`: further "NAME=value".
    explicit Program(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment = {});
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    /// Waits until it has ended and its output is closed (also by whatever it started).
    [[nodiscard]] Outcome wait(base::Deadline deadline);

  private:
    pid_t pid_ = -1;
    base::UniqueFd output_;
    base::UniqueFd errors_;
};

/// Runs it to its end, at most a minute.
[[nodiscard]] Outcome run(const std::vector<std::string>& arguments,
                          const std::vector<std::string>& environment = {});

}  // namespace via::tool::test
