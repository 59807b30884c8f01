// SPDX-License-Identifier: BSD-3-Clause
#include "bare/pinning.hpp"

#include <cerrno>
#include <fstream>
#include <string>

#include "bare/bare_limits.hpp"

namespace via::bare {

namespace {

/// "0-1" or "0,32": which processors are threads of the same core. Empty if the machine hides it.
std::string siblings_of(int core) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) +
                       "/topology/thread_siblings_list");
    std::string line;
    std::getline(file, line);
    return line;
}

}  // namespace

base::Result<void> pin_to(int core) {
    if (core < 0 || core >= CPU_SETSIZE) {
        return {base::Code::InvalidArgument,
                "pin to processor " + std::to_string(core) + ": there is no such processor"};
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(core), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) {
        return base::system_error(errno, "pin to processor " + std::to_string(core) +
                                             " (choose one that this process may use)");
    }
    return {};
}

base::Result<PinnedScope> PinnedScope::on(int core) {
    cpu_set_t before;
    CPU_ZERO(&before);
    if (::sched_getaffinity(0, sizeof before, &before) != 0) {
        return base::system_error(errno, "ask which processors this process may use");
    }
    if (auto pinned = pin_to(core); !pinned) return std::move(pinned).error();
    return PinnedScope(before);
}

base::Result<CorePair> two_cores() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return base::system_error(errno, "ask which processors this process may use");
    }
    int first = -1;
    int sibling = -1;
    std::string siblings_of_first;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(static_cast<unsigned>(core), &allowed)) continue;
        if (first < 0) {
            first = core;
            siblings_of_first = siblings_of(core);
        } else if (siblings_of_first.empty() || siblings_of(core) != siblings_of_first) {
            return CorePair{first, core};
        } else if (sibling < 0) {
            sibling = core;
        }
    }
    if (first >= 0 && sibling >= 0) return CorePair{first, sibling};
    return {base::Code::OutOfResources,
            "measuring between two processes needs two processors, and this process may use only "
            "one: widen its affinity (taskset, cpuset, container limits)"};
}

}  // namespace via::bare
