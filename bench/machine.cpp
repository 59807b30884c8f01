// SPDX-License-Identifier: BSD-3-Clause
#include "machine.hpp"

#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "process.hpp"

namespace via::bench {

Machine this_machine() {
    Machine machine;
    machine.processors = ::sysconf(_SC_NPROCESSORS_ONLN);
    utsname names{};
    if (::uname(&names) == 0) {
        machine.kernel = std::string(names.sysname) + " " + names.release + " " + names.machine;
    }
    double load = 0;
    if (::getloadavg(&load, 1) == 1) machine.load = load;

    const time_t now = ::time(nullptr);
    tm parts{};
    std::array<char, 32> text{};
    if (::gmtime_r(&now, &parts) != nullptr) {
        ::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
        machine.time = text.data();
    }
    Command command;
    command.arguments = {"lscpu"};
    command.environment = {"LC_ALL=C"};
    if (auto output = run(command, base::Deadline::after_milliseconds(5000))) {
        std::istringstream lines(output.value());
        for (std::string line; std::getline(lines, line);) {
            if (!line.starts_with("Model name:")) continue;
            machine.processor = line.substr(line.find_first_not_of(' ', 11));
            break;
        }
    }
    return machine;
}

}  // namespace via::bench
