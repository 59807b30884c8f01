// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/pair.hpp"

#include <atomic>
#include <utility>

#include "vipl/harness/pattern.hpp"

namespace via::test {

namespace {

ViOptions with_tag(ViOptions options, VIP_PROTECTION_HANDLE tag) {
    options.tag = tag;
    return options;
}

}  // namespace

ViOptions vi_options_of(const PairOptions& options) {
    ViOptions result;
    result.level = options.level;
    result.max_transfer_bytes = options.max_transfer_bytes;
    result.rdma_write = options.rdma_write;
    result.rdma_read = options.rdma_read;
    return result;
}

End::End(Nic& end_nic, const PairOptions& options, ViOptions vi_options)
    : nic(end_nic),
      tag(make_tag(end_nic)),
      arena(end_nic, {.bytes = options.arena_bytes, .tag = tag}),
      vi(end_nic, with_tag(vi_options, tag)) {}

Pair::Pair(const PairOptions& options)
    : client_nic_(std::make_unique<Nic>()),
      server_nic_(options.one_nic_handle ? nullptr : std::make_unique<Nic>()),
      client(*client_nic_, options, vi_options_of(options)),
      server(server_nic_ ? *server_nic_ : *client_nic_, options, vi_options_of(options)) {
    if (options.connected) connect_again();
}

void Pair::connect_again() {
    const ConnectOutcome outcome = connect(client.vi, server.vi);
    if (outcome.request != VIP_SUCCESS) fail_with("VipConnectRequest", outcome.request);
    if (outcome.wait != VIP_SUCCESS) fail_with("VipConnectWait", outcome.wait);
    if (outcome.accept != VIP_SUCCESS) fail_with("VipConnectAccept", outcome.accept);
}

void expect_traffic(Pair& pair) {
    static std::atomic<std::uint32_t> counter{0x1000};
    for (auto [from, to] : {std::pair{&pair.client, &pair.server}, {&pair.server, &pair.client}}) {
        constexpr std::size_t bytes = 100;
        const std::uint32_t seed = counter.fetch_add(1);
        std::byte* source = from->arena.take(bytes);
        std::byte* target = to->arena.take(bytes);
        fill_pattern(source, bytes, seed);
        VIP_DESCRIPTOR* receive = to->arena.message(target, bytes);
        VIP_DESCRIPTOR* send = from->arena.message(source, bytes);
        ASSERT_VIP(VIP_SUCCESS, to->post_recv(receive));
        ASSERT_VIP(VIP_SUCCESS, from->post_send(send));
        const Completion sent = from->vi.await_send();
        EXPECT_VIP(VIP_SUCCESS, sent.code);
        EXPECT_EQ(sent.descriptor, send);
        const Completion received = to->vi.await_recv();
        EXPECT_VIP(VIP_SUCCESS, received.code);
        EXPECT_EQ(received.descriptor, receive);
        EXPECT_EQ(received.length(), bytes);
        EXPECT_TRUE(has_pattern(target, bytes, seed));
    }
}

ViInState::ViInState(Nic& nic, VIP_VI_STATE state, const ViOptions& options) : vi(nic, options) {
    if (state == VIP_STATE_IDLE) return;
    if (state == VIP_STATE_CONNECT_PENDING) {
        Address local(nic, unique_discriminator());
        Address remote(nic, unique_discriminator());
        const VIP_RETURN code = VipConnectPeerRequest(vi, local.get(), remote.get(), VIP_INFINITE);
        if (code != VIP_SUCCESS) fail_with("VipConnectPeerRequest", code);
    } else {
        ViOptions partner_options = options;
        partner_options.send_cq = nullptr;
        partner_options.recv_cq = nullptr;
        partner_ = std::make_unique<Vi>(nic, partner_options);
        const ConnectOutcome outcome = connect(vi, *partner_);
        if (outcome.request != VIP_SUCCESS) fail_with("VipConnectRequest", outcome.request);
        if (state == VIP_STATE_ERROR) {
            EXPECT_VIP(VIP_SUCCESS, VipDisconnect(*partner_));
            EXPECT_TRUE(vi.becomes(VIP_STATE_ERROR));
        }
    }
    EXPECT_EQ(vi.state(), state);
}

ViInState::~ViInState() = default;

}  // namespace via::test
