// SPDX-License-Identifier: BSD-3-Clause
// make_message_packet_corpus <folder>: the seeds of message_packet_fuzz, one of each kind, class
// and protocol. Run it again when the packets' format changes.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "mvich/random_packet.hpp"

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "make_message_packet_corpus <folder>\n");
        return 2;
    }
    const std::filesystem::path folder(arguments[1]);
    std::filesystem::create_directories(folder);
    for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
        via::test::Random random(seed);
        std::vector<std::byte> payload;
        const via::mvich::Packet packet = via::test::random_packet(random, payload);
        const std::filesystem::path path =
            folder / ("kind-" + std::to_string(packet.head.kind) + "-class-" +
                      std::to_string(static_cast<int>(packet.message_class())) + "-protocol-" +
                      std::to_string(static_cast<int>(packet.protocol)));
        if (std::filesystem::exists(path)) continue;
        const std::vector<std::byte> bytes = via::test::bytes_of(packet);
        std::ofstream(path, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }
    return 0;
}
