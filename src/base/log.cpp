// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <string>

namespace via::base {
namespace {

std::atomic<LogLevel> current_level{LogLevel::Warning};

std::string_view level_name(LogLevel level) noexcept {
    switch (level) {
        case LogLevel::Silent:
            return "silent";
        case LogLevel::Error:
            return "error";
        case LogLevel::Warning:
            return "warning";
        case LogLevel::Info:
            return "info";
        case LogLevel::Debug:
            return "debug";
    }
    return "?";
}

}  // namespace

void set_log_level(LogLevel level) noexcept {
    current_level.store(level, std::memory_order_relaxed);
}

LogLevel log_level() noexcept {
    return current_level.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view sentence) noexcept {
    if (level > log_level() || level == LogLevel::Silent) return;
    try {
        std::string line = "viaduct[" + std::to_string(getpid()) + "] ";
        line += level_name(level);
        line += ": ";
        line += sentence;
        line += '\n';
        // One write per line, so that lines of several processes do not mix.
        [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    } catch (...) {
        // Out of memory while logging: the line is lost, the program goes on.
    }
}

}  // namespace via::base
