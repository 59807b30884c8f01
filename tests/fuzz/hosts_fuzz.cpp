// SPDX-License-Identifier: BSD-3-Clause
// The hosts file is text from outside. What is taken from it can be written back and is read the
// same again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ua/name_service.hpp"

using namespace via::ua;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::vector<std::string> problems;
    const auto entries = parse_hosts(text, problems);
    std::size_t lines = 1;
    for (const char c : text)
        lines += c == '\n';
    require(entries.size() + problems.size() <= lines);

    std::string again;
    for (const HostEntry& entry : entries) {
        require(!entry.name.empty());
        require(entry.name.find_first_of("# \t\n\v\f\r") == std::string::npos);
        char address[32];
        std::snprintf(address, sizeof address, " %02x:%02x:%02x:%02x:%02x:%02x\n", entry.address[0],
                      entry.address[1], entry.address[2], entry.address[3], entry.address[4],
                      entry.address[5]);
        again += entry.name + address;
    }
    std::vector<std::string> none;
    const auto reread = parse_hosts(again, none);
    require(none.empty());
    require(reread.size() == entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i)
        require(reread[i].name == entries[i].name && reread[i].address == entries[i].address);
    return 0;
}
