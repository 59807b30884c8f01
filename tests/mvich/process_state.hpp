// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace via::mvich {

/// By SIGSTOP: it does nothing until it is continued or killed.
inline bool is_stopped(pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const std::size_t end = text.rfind(')');
    return end != std::string::npos && end + 2 < text.size() && text[end + 2] == 'T';
}

}  // namespace via::mvich
