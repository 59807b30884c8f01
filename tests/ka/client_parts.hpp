// SPDX-License-Identifier: BSD-3-Clause
// What tests of the client have in common: the fixture, and two clients that are connected.
#pragma once

#include <cstdint>
#include <thread>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "ka/client.hpp"
#include "ka/harness.hpp"

namespace via::ka::test {

class ClientTest : public AgentTest {};

/// Two clients of one process, connected.
struct Pair {
    TestProcess client;
    TestProcess server;
    std::uint32_t client_vi = client->create_vi().value();
    std::uint32_t server_vi = server->create_vi().value();
    base::Result<Established> at_client{base::Code::NoMatch, ""};
    base::Result<Established> at_server{base::Code::NoMatch, ""};

    explicit Pair(ProtectionTag client_tag = 1, ProtectionTag server_tag = 1,
                  std::uint32_t server_flags = 0) {
        std::thread serving([&] {
            auto incoming = server->connect_wait(address("host-a", "s"), soon());
            if (!incoming) return;
            ConnectOffer answer = offer(server_vi, "s", "c", server_tag);
            answer.attributes.flags = server_flags;
            at_server = server->connect_accept(incoming.value().request, answer, soon());
        });
        const base::Deadline deadline = soon();
        while (!at_client && at_client.error().code == base::Code::NoMatch && !deadline.expired())
            at_client = client->connect_request(offer(client_vi, "c", "s", client_tag), soon());
        serving.join();
    }
    [[nodiscard]] bool connected() const { return at_client.ok() && at_server.ok(); }
};

}  // namespace via::ka::test
