// SPDX-License-Identifier: BSD-3-Clause
#include "ka/protocol.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

namespace via::ka {
namespace {

using base::Code;

template <class Body>
base::Result<Request> recode(const Body& body) {
    return decode_request(encode(77, body));
}

template <class Body>
void expect_refused(const Body& body) {
    auto request = recode(body);
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().code, Code::ProtocolViolation);
    EXPECT_FALSE(request.error().sentence.empty());
}

template <class Body>
void expect_reply_refused(const Body& body) {
    auto reply = decode_reply(encode(77, body));
    ASSERT_FALSE(reply.ok());
    EXPECT_EQ(reply.error().code, Code::ProtocolViolation);
}

TEST(Protocol, WhatIsEncodedIsDecoded) {
    RegisterRequest sent;
    sent.address = 4096;
    sent.bytes = 17;
    sent.tag = 3;
    sent.rights = right_rdma_read;
    auto request = recode(sent);
    ASSERT_TRUE(request.ok()) << request.error().sentence;
    EXPECT_EQ(request.value().id, 77U);
    const auto& got = std::get<RegisterRequest>(request.value().body);
    EXPECT_EQ(std::memcmp(&got, &sent, sizeof got), 0);
    FailedReply failure = failed({Code::NoMatch, "nobody there"});
    auto reply = decode_reply(encode(5, failure));
    ASSERT_TRUE(reply.ok());
    const base::Error error = error_of(std::get<FailedReply>(reply.value().body));
    EXPECT_EQ(error.code, Code::NoMatch);
    EXPECT_EQ(error.sentence, "nobody there");
}

TEST(Protocol, EveryKindOfMessageHasItsOwnNumberAndSize) {
    // A default message of each kind is either right or refused for its contents, never taken for
    // another kind.
    std::set<std::uint16_t> kinds;
    [&]<std::size_t... index>(std::index_sequence<index...>) {
        (
            [&] {
                using Body = std::variant_alternative_t<index, RequestBody>;
                EXPECT_TRUE(kinds.insert(static_cast<std::uint16_t>(Body::kind)).second);
                auto request = recode(Body{});
                if (request) {
                    EXPECT_EQ(request.value().body.index(), index);
                }
                EXPECT_FALSE(decode_reply(encode(1, Body{})).ok());
            }(),
            ...);
    }
    (std::make_index_sequence<std::variant_size_v<RequestBody>>{});
    [&]<std::size_t... index>(std::index_sequence<index...>) {
        (
            [&] {
                using Body = std::variant_alternative_t<index, ReplyBody>;
                EXPECT_TRUE(kinds.insert(static_cast<std::uint16_t>(Body::kind)).second);
                auto reply = decode_reply(encode(1, Body{}));
                if (reply) {
                    EXPECT_EQ(reply.value().body.index(), index);
                }
                EXPECT_FALSE(recode(Body{}).ok());
            }(),
            ...);
    }
    (std::make_index_sequence<std::variant_size_v<ReplyBody>>{});
}

TEST(Protocol, LengthsMustBeExact) {
    const auto message = encode(1, DeregisterRequest{5, 0});
    ASSERT_TRUE(decode_request(message).ok());
    for (std::size_t length = 0; length < message.size(); ++length)
        EXPECT_FALSE(decode_request(std::span(message).first(length)).ok()) << length;
    auto longer = message;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_request(longer).ok());
    EXPECT_FALSE(decode_request({}).ok());
}

TEST(Protocol, AnotherVersionIsNotSupported) {
    auto message = encode(9, StopRequest{});
    MessageHeader header;
    std::memcpy(&header, message.data(), sizeof header);
    header.version = protocol_version + 1;
    std::memcpy(message.data(), &header, sizeof header);
    auto request = decode_request(message);
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().code, Code::NotSupported);
    ASSERT_TRUE(decode_header(message).ok());
    EXPECT_EQ(decode_header(message).value().id, 9U);
    header.magic = 0;
    std::memcpy(message.data(), &header, sizeof header);
    EXPECT_EQ(decode_request(message).error().code, Code::ProtocolViolation);
}

TEST(Protocol, LiesInRequestsAreRefused) {
    RegisterRequest region;
    region.address = 1;
    region.bytes = 1;
    EXPECT_TRUE(recode(region).ok());
    auto bad = region;
    bad.bytes = 0;
    expect_refused(bad);
    bad = region;
    bad.address = ~std::uint64_t{0};
    bad.bytes = 2;
    expect_refused(bad);
    bad = region;
    bad.rights = 4;
    expect_refused(bad);
    bad = region;
    bad.arena_offset = 1;  // of no arena
    expect_refused(bad);
    bad = region;
    bad.arena = 1;
    bad.arena_offset = ~std::uint64_t{0};
    expect_refused(bad);
    bad = region;
    bad.reserved = 1;
    expect_refused(bad);

    ConnectWaitRequest wait;
    EXPECT_TRUE(recode(wait).ok());
    wait.fabrics = all_fabrics;
    EXPECT_TRUE(recode(wait).ok());
    wait.fabrics = 0;
    expect_refused(wait);
    wait.fabrics = 4;
    expect_refused(wait);
    wait.fabrics = fabric_net;
    wait.local.host_bytes = 21;
    expect_refused(wait);
    wait.local.host_bytes = 0;
    wait.local.discriminator_bytes = 65;
    expect_refused(wait);
    wait.local.discriminator_bytes = 1;
    wait.local.discriminator[1] = 1;  // after its end
    expect_refused(wait);

    ConnectRequestRequest connect;
    EXPECT_TRUE(recode(connect).ok());
    connect.offer.attributes.flags = 2;
    expect_refused(connect);
    connect.offer.attributes.flags = 0;
    connect.offer.attributes.rights = 8;
    expect_refused(connect);
    connect.offer.attributes.rights = 0;
    connect.offer.remote.host_bytes = 255;
    expect_refused(connect);
    connect.offer.remote.host_bytes = 0;
    connect.offer.fabric = 3;  // one, not a mask
    expect_refused(connect);
    connect.offer.fabric = fabric_net;
    EXPECT_TRUE(recode(connect).ok());
    connect.offer.reserved = 1;
    expect_refused(connect);

    AttachRequest attach;
    EXPECT_TRUE(recode(attach).ok());
    attach.program.bytes.fill('x');  // without an end
    expect_refused(attach);
    attach.program = FixedText<64>("name");
    EXPECT_TRUE(recode(attach).ok());
    attach.program.bytes[10] = 'x';
    expect_refused(attach);
    attach = AttachRequest{};
    attach.descriptors = 8;
    expect_refused(attach);
    attach = AttachRequest{};
    attach.restoring = 2;
    expect_refused(attach);

    RestoreRegionsRequest regions;
    regions.count = RestoreRegionsRequest::capacity + 1;
    expect_refused(regions);
    regions.count = 1;  // with handle 0
    regions.regions[0].region = region;
    expect_refused(regions);
    regions.regions[0].handle = 0xFFFF;  // the last index is no handle
    expect_refused(regions);
    regions.regions[0].handle = 1;
    EXPECT_TRUE(recode(regions).ok());
    RestoreBlocksRequest blocks;
    blocks.count = 0xFFFFFFFF;
    expect_refused(blocks);
    RestoreVisRequest vis;
    vis.count = RestoreVisRequest::capacity + 1;
    expect_refused(vis);
    vis.count = 1;
    expect_refused(vis);
    RestoreConnectionsRequest connections;
    connections.count = RestoreConnectionsRequest::capacity + 1;
    expect_refused(connections);
    connections.count = 1;
    expect_refused(connections);
    RestoreArenaRequest arena;
    expect_refused(arena);
}

TEST(Protocol, LiesInRepliesAreRefused) {
    FailedReply failure;
    failure.code = 200;
    expect_reply_refused(failure);
    failure.code = 0;
    failure.sentence.bytes.fill('x');
    expect_reply_refused(failure);
    expect_reply_refused(RegisteredReply{0, 0});
    expect_reply_refused(RegisteredReply{0xFFFFFFFF, 0});
    KmemAllocatedReply kmem;
    expect_reply_refused(kmem);
    kmem.arena = 1;
    kmem.bytes = 4096;
    kmem.arena_bytes = 4096;
    EXPECT_TRUE(decode_reply(encode(1, kmem)).ok());
    kmem.offset = 1;  // beyond the arena
    expect_reply_refused(kmem);
    kmem.offset = ~std::uint64_t{0} - 10;
    expect_reply_refused(kmem);
    StatusPageReply page;
    EXPECT_TRUE(decode_reply(encode(1, page)).ok());
    page.count = StatusPageReply::capacity + 1;
    expect_reply_refused(page);
    page.count = 0;
    page.more = 1;  // would be asked for ever
    expect_reply_refused(page);
    ConnectionsGoneEvent gone;
    gone.count = 32;
    expect_reply_refused(gone);
    LinkPolicyEvent policy;
    policy.policy = FixedText<16>("adaptive");
    EXPECT_TRUE(decode_reply(encode(1, policy)).ok());
    policy.policy.bytes[15] = 'x';  // does not end
    expect_reply_refused(policy);
    EstablishedReply established;
    EXPECT_TRUE(decode_reply(encode(1, established)).ok());
    established.descriptors = 16;
    expect_reply_refused(established);
    established.descriptors = established_doorbell_event;  // of no process
    expect_reply_refused(established);
    established.descriptors = established_channel;  // of no size
    expect_reply_refused(established);
    established.channel_bytes = 1;
    EXPECT_TRUE(decode_reply(encode(1, established)).ok());
    EXPECT_EQ(established.descriptor_count(), 1U);
    established.descriptors = 15;
    EXPECT_EQ(established.descriptor_count(), 5U);
    established.descriptors = 0;  // where is the channel?
    expect_reply_refused(established);
    IncomingReply incoming;
    incoming.fabric = all_fabrics;
    expect_reply_refused(incoming);
    AttachedReply attached;
    attached.net_port = 65536;
    expect_reply_refused(attached);
}

TEST(Protocol, RandomBytesNeverGetThrough) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::byte> message(random() % 600);
        for (std::byte& byte : message)
            byte = static_cast<std::byte>(random());
        if (message.size() >= sizeof(MessageHeader) && i % 2 == 0) {
            const MessageHeader header{protocol_magic, protocol_version,
                                       static_cast<std::uint16_t>(random() % 160), random()};
            std::memcpy(message.data(), &header, sizeof header);
        }
        (void)decode_request(message);
        (void)decode_reply(message);
    }
}

TEST(Protocol, TimeoutsSurviveTheTrip) {
    EXPECT_TRUE(deadline_of(timeout_of(base::Deadline::never()), 1000).is_never());
    EXPECT_EQ(deadline_of(500, 1000).moment(), 1500);
    EXPECT_TRUE(deadline_of(timeout_never - 5, 1000).is_never());
    EXPECT_EQ(timeout_of(base::Deadline::at(0)), 0U);
    EXPECT_GT(timeout_of(base::Deadline::after_milliseconds(100000)), 0U);
}

TEST(Protocol, AddressesAreMadeCanonical) {
    NetAddress address;
    address.host_bytes = 2;
    address.host.fill(9);
    address.discriminator_bytes = 64;
    address.discriminator.fill(8);
    auto clean = canonical(address);
    ASSERT_TRUE(clean.ok());
    EXPECT_EQ(clean.value().host[1], 9);
    EXPECT_EQ(clean.value().host[2], 0);
    EXPECT_EQ(clean.value().discriminator[63], 8);
    address.host_bytes = 21;
    EXPECT_EQ(canonical(address).error().code, Code::InvalidArgument);
    address.host_bytes = 20;
    address.discriminator_bytes = 65;
    EXPECT_EQ(canonical(address).error().code, Code::InvalidArgument);
}

TEST(FixedText, CutsWhatIsTooLong) {
    const FixedText<4> text("abcdef");
    EXPECT_EQ(text.text(), "abc");
    EXPECT_TRUE(text.terminated());
    EXPECT_EQ(FixedText<4>("").text(), "");
}

}  // namespace
}  // namespace via::ka
