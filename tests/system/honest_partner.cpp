// SPDX-License-Identifier: BSD-3-Clause
// The roles that speak with the victim and mean no harm.
#include "system/honest_partner.hpp"

namespace via::test {
namespace {

PEER(honest_partner) {
    ClientEnd client(honest_pair);
    HonestEnd own(client.end);
    own.post_receive(0);
    client.request(link);
    link.put(Remote{own.window, client.end.arena.handle()});
    const auto remote = link.get<Remote>();
    for (std::uint32_t number = 0; link.get<std::uint8_t>() != 0; ++number) {
        const Completion heard = client.end.vi.await_recv();
        own.expect_heard(number, 2 * number, heard);
        own.post_receive(number + 1);
        own.speak(number, 2 * number + 1, remote);
        for (int i = 0; i < 2; ++i)
            EXPECT_VIP(VIP_SUCCESS, client.end.vi.await_send().code);
        if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(client.end.vi.state(), VIP_STATE_CONNECTED);
    EXPECT_EQ(client.nic.errors().count(), 0U);
}

/// Somebody new, when it is all over.
PEER(newcomer) {
    ClientEnd client(honest_pair);
    HonestEnd own(client.end);
    own.post_receive(5);
    client.request(link);
    link.put(Remote{own.window, client.end.arena.handle()});
    const auto remote = link.get<Remote>();
    own.speak(5, 1, remote);
    own.expect_heard(5, 2, client.end.vi.await_recv());
    link.meet();
}

}  // namespace
}  // namespace via::test
