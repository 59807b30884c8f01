// SPDX-License-Identifier: BSD-3-Clause
// The other process of peer_test: says its name, sends every tagged message back with its tag, and
// lets others read and write its window (key 1). It ends with a message of tag 0, or when nobody
// reads its standard output any more.
#include <arpa/inet.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

constexpr std::size_t most_bytes = 1 << 20;

int serve() {
    Wish wish;
    Node node(wish);
    std::vector<char> window(most_bytes, 'w');
    const auto region = node.expose(window.data(), window.size(), 1);
    std::vector<char> got(most_bytes);
    const sockaddr_in name = node.name();
    std::printf("%u %u\n", ntohl(name.sin_addr.s_addr), ntohs(name.sin_port));
    std::fflush(stdout);
    sockaddr_in asker{};
    // First comes the name of who asks.
    check(fi_trecv(node.ep.get(), &asker, sizeof asker, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr),
          "fi_trecv");
    (void)node.next_good();
    const fi_addr_t back = node.insert(asker);
    for (;;) {
        check(fi_trecv(node.ep.get(), got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, 0, ~0ULL,
                       nullptr),
              "fi_trecv");
        fi_cq_tagged_entry entry{};
        do {
            const ssize_t read = fi_cq_sread(node.cq.get(), &entry, 1, nullptr, 60'000);
            check(read, "fi_cq_sread");
        } while (!(entry.flags & FI_RECV));
        if (entry.tag == 0) return 0;
        until_taken(
            node, nullptr,
            [&] {
                return fi_tsenddata(node.ep.get(), got.data(), entry.len, nullptr, entry.data + 1,
                                    back, entry.tag, nullptr);
            },
            "fi_tsenddata");
        // The buffer is used again: the message must have gone.
        do {
            check(fi_cq_sread(node.cq.get(), &entry, 1, nullptr, 60'000), "fi_cq_sread");
        } while (!(entry.flags & FI_SEND));
    }
}

}  // namespace

int main() {
    alarm(100);  // a test that is gone does not leave it behind
    try {
        return serve();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ofi_peer: %s\n", error.what());
        return 1;
    }
}
