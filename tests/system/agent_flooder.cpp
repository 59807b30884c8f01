// SPDX-License-Identifier: BSD-3-Clause
// The role "flooder": fills the kernel agent's socket with requests, broken ones among them, and
// reads no answer.
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/memory_file.hpp"
#include "base/message_socket.hpp"
#include "ka/protocol.hpp"
#include "na/seeded.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

void flood(std::uint64_t seed, std::uint32_t messages) {
    using ka::encode;
    Random random(seed);
    const std::string name = std::getenv("VIA_AGENT_SOCKET");
    std::deque<base::UniqueFd> sockets;
    for (std::uint32_t i = 0; i < messages; ++i) {
        if (sockets.empty() || random.one_in(16)) {
            auto connected = base::connect_message_socket(name);
            if (!connected) continue;
            sockets.push_back(std::move(connected).value());
            if (sockets.size() > 16) sockets.pop_front();
            if (random.one_in(2)) {  // as everybody does
                auto page = base::create_memory_file("doorbell", 4096, base::Backing::Sparse);
                if (!page) continue;
                ka::AttachRequest request;
                request.descriptors = ka::attach_doorbell_memory;
                request.instance = random.next();
                const std::array fds{page.value().get()};
                static_cast<void>(base::send_message(sockets.back(), encode(i, request), fds,
                                                     base::Deadline::at(0)));
            }
            continue;
        }
        std::vector<std::byte> message;
        switch (random.below(8)) {
            case 0:
                message = encode(i, ka::PeerArenaRequest{random.below(100), random.below(20), 0});
                break;
            case 1:
                message = encode(i, ka::PeerRmmtRequest{random.below(100)});
                break;
            case 2:
                message = encode(i, ka::DeregisterRequest{random.below(1U << 20), 0});
                break;
            case 3:
                message = encode(i, ka::ConnectRejectRequest{random.below(100)});
                break;
            case 4:
                message = encode(i, ka::CreateViRequest{});
                break;
            case 5:
                message = encode(i, ka::StatusRequest{});
                break;
            default:
                message.resize(1 + random.below(600));
                for (std::byte& byte : message)
                    byte = static_cast<std::byte>(random.next());
                if (random.one_in(2) && message.size() >= sizeof(ka::MessageHeader)) {
                    const ka::MessageHeader header{ka::protocol_magic, ka::protocol_version,
                                                   static_cast<std::uint16_t>(random.below(40)), i};
                    std::memcpy(message.data(), &header, sizeof header);
                }
        }
        if (random.one_in(4))
            message.resize(1 + random.below(static_cast<std::uint32_t>(message.size())));
        // Nobody reads the answers.
        const auto& socket = sockets[random.below(static_cast<std::uint32_t>(sockets.size()))];
        static_cast<void>(base::send_message(socket, message, {}, base::Deadline::at(0)));
    }
}

PEER(flooder) {
    while (const auto messages = link.get<std::uint32_t>()) {
        flood(link.get<std::uint64_t>(), messages);
        link.put<std::uint8_t>(1);
    }
}

}  // namespace
}  // namespace via::test
