// SPDX-License-Identifier: BSD-3-Clause
// Attaches with the environment it is given and says what came of it: "agent <pid>", or
// "error <code>: <sentence>". A program of its own because settings are read once per process.
// A further word: "hold" stays attached until standard input ends, "hurry" has little time.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "base/clock.hpp"
#include "base/memory_file.hpp"
#include "ka/client.hpp"

int main(int count, char** arguments) {
    using namespace via;
    const std::string_view word = count > 1 ? arguments[1] : "";
    auto doorbell = base::create_memory_file("doorbell", 4096, base::Backing::Allocated);
    if (!doorbell) return 2;
    const base::UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    auto client =
        ka::AgentClient::attach({doorbell.value().get(), event.get(), -1},
                                base::Deadline::after_milliseconds(word == "hurry" ? 300 : 20000));
    if (!client) {
        std::printf("error %s: %s\n", std::string(base::code_name(client.error().code)).c_str(),
                    client.error().sentence.c_str());
        return 1;
    }
    auto status = client.value()->status();
    if (!status) {
        std::printf("error %s: %s\n", std::string(base::code_name(status.error().code)).c_str(),
                    status.error().sentence.c_str());
        return 1;
    }
    std::printf("agent %d\n", status.value().pid);
    std::fflush(stdout);
    if (word == "hold") {
        char byte;
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
    }
    return 0;
}
