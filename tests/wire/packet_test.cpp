// SPDX-License-Identifier: BSD-3-Clause
#include "wire/packet.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

using namespace via::wire;

namespace {

using Body = std::vector<std::byte>;

/// A copy that ends where its memory ends, so that a sanitizer sees a read beyond it.
struct Exact {
    explicit Exact(std::span<const std::byte> from)
        : bytes(new std::byte[from.size()]), size(from.size()) {
        std::copy(from.begin(), from.end(), bytes.get());
    }
    [[nodiscard]] std::span<const std::byte> span() const { return {bytes.get(), size}; }
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size;
};

Body encoded(const DataFrame& frame) {
    Body body(longest_data_frame_header + frame.length);
    const std::uint32_t header = encode(body.data(), frame);
    body.resize(header + frame.length);
    for (std::size_t i = 0; i < frame.length; ++i)
        body[header + i] = static_cast<std::byte>(i);
    return body;
}

Body encoded(const AcknowledgementFrame& frame) {
    Body body(AcknowledgementFrame::fixed_bytes +
              AcknowledgementFrame::most_ranges * AcknowledgementFrame::range_bytes);
    body.resize(encode(body.data(), frame));
    return body;
}

DataFrame sample(FrameType type, std::uint8_t flags) {
    DataFrame frame;
    frame.type = type;
    frame.flags = flags;
    frame.length = type == FrameType::ReadRequest ? 0 : 37;
    frame.message = 0x89ABCDEF;
    frame.receive = 0x12345678;
    frame.total = frame.whole() ? frame.length : 100'000;
    frame.offset = frame.whole() || type == FrameType::ReadRequest ? 0 : 99'963;
    frame.immediate = frame.has_immediate() ? 0xCAFEF00D : 0;
    if (frame.has_target()) {
        frame.address = 0x1122334455667788;
        frame.handle = 0x00010002;
    }
    return frame;
}

constexpr std::array data_types{FrameType::Send, FrameType::RdmaWrite, FrameType::ReadRequest,
                                FrameType::ReadData};

}  // namespace

TEST(Packet, TheHeaderLiesWhereTheDocumentSays) {
    PacketHeader header;
    header.token = 0x04030201;
    header.checksum = 0x08070605;
    header.number = 0x0C0B0A09;
    header.link = 7;
    header.flags = packet_sealed;
    std::array<std::byte, PacketHeader::bytes> bytes;
    bytes.fill(std::byte{0xEE});
    encode(bytes.data(), header);
    const std::array<std::uint8_t, 16> expected{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 4, 7, 1, 0};
    for (std::size_t i = 0; i < bytes.size(); ++i)
        EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << "byte " << i;
    const PacketHeader back = decode_packet_header(bytes.data());
    EXPECT_EQ(back.token, header.token);
    EXPECT_EQ(back.checksum, header.checksum);
    EXPECT_EQ(back.number, header.number);
    EXPECT_EQ(back.version, packet_version);
    EXPECT_EQ(back.link, header.link);
    EXPECT_EQ(back.flags, header.flags);
}

TEST(Packet, ContinuationsLieWhereTheDocumentSays) {
    PacketHeader header;
    header.number = 0x0C0B0A09;
    header.link = 7;
    std::array<std::byte, PacketHeader::bytes + Continuation::bytes + 3> bytes;
    bytes.fill(std::byte{0});
    encode(bytes.data(), header);
    encode(bytes.data(), Continuation{0x99332211, 0x47464544});
    bytes[22] = std::byte{0x55};
    const std::array<std::uint8_t, 15> expected{9,    10,   11,   12,   4,    7,    2,   0x33,
                                                0x11, 0x22, 0x44, 0x45, 0x46, 0x47, 0x55};
    for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_EQ(std::to_integer<int>(bytes[8 + i]), expected[i]) << "byte " << 8 + i;
    const PacketHeader back = decode_packet_header(bytes.data());
    EXPECT_EQ(back.flags, packet_continues);
    const auto body = std::span<const std::byte>(bytes).subspan(PacketHeader::bytes);
    const auto piece = decode_continuation(back, body);
    ASSERT_TRUE(piece);
    EXPECT_EQ(piece->message, 0x332211U);  // the low bits
    EXPECT_EQ(piece->offset, 0x47464544U);
    for (std::size_t length = 0; length <= Continuation::bytes; ++length) {
        const Exact cut{body.first(length)};
        EXPECT_FALSE(decode_continuation(back, cut.span())) << length;
    }
}

TEST(Packet, NumbersOfFewerBitsAreExpandedToo) {
    EXPECT_EQ(expand<24>(5, 0), 5U);
    EXPECT_EQ(expand<24>(0xFFFFFF, 0), 0xFFFFFFU);  // nothing is below zero
    EXPECT_EQ(expand<24>(0xFFFFFF, 0x1000000), 0xFFFFFFU);
    EXPECT_EQ(expand<24>(2, 0x7FFFFFF), 0x8000002U);
    EXPECT_EQ(expand<24>(0xFFFFFE, 0x123'0000'0001), 0x122'FFFF'FFFEU);
    EXPECT_EQ(expand<24>(3, 0x122'FFFF'FFFE), 0x123'0000'0003U);
}

TEST(Packet, DataFramesComeBackAsTheyWere) {
    for (const FrameType type : data_types)
        for (std::uint8_t flags = 0; flags < 4; ++flags) {
            SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)) + " flags " +
                         std::to_string(flags));
            const DataFrame frame = sample(type, flags);
            const Body body = encoded(frame);
            EXPECT_EQ(body.size(), data_frame_header_bytes(type, flags) + frame.length);
            EXPECT_LE(data_frame_header_bytes(type, flags), longest_data_frame_header);
            FrameReader reader(body);
            ASSERT_EQ(reader.next(), type);
            DataFrame back;
            std::span<const std::byte> payload;
            ASSERT_TRUE(reader.take(back, payload));
            EXPECT_EQ(back.type, type);
            EXPECT_EQ(back.flags, flags);
            EXPECT_EQ(back.length, frame.length);
            EXPECT_EQ(back.message, frame.message);
            EXPECT_EQ(back.receive, frame.receive);
            EXPECT_EQ(back.total, frame.total);
            EXPECT_EQ(back.offset, frame.offset);
            EXPECT_EQ(back.immediate, frame.immediate);
            EXPECT_EQ(back.address, frame.address);
            EXPECT_EQ(back.handle, frame.handle);
            ASSERT_EQ(payload.size(), frame.length);
            for (std::size_t i = 0; i < payload.size(); ++i)
                EXPECT_EQ(payload[i], static_cast<std::byte>(i));
            EXPECT_FALSE(reader.next());
        }
}

TEST(Packet, EveryTruncatedDataFrameIsRefused) {
    for (const FrameType type : data_types)
        for (std::uint8_t flags = 0; flags < 4; ++flags) {
            const Body body = encoded(sample(type, flags));
            for (std::size_t length = 1; length < body.size(); ++length) {
                const Exact cut{std::span(body).first(length)};
                FrameReader reader(cut.span());
                DataFrame back;
                std::span<const std::byte> payload;
                EXPECT_FALSE(reader.take(back, payload))
                    << "type " << static_cast<int>(type) << " flags " << int{flags} << " cut to "
                    << length;
            }
        }
}

TEST(Packet, PiecesOutsideTheirOperationAreRefused) {
    const auto refused = [](DataFrame frame) {
        const Body body = encoded(frame);
        FrameReader reader(body);
        std::span<const std::byte> payload;
        return !reader.take(frame, payload);
    };
    DataFrame frame = sample(FrameType::Send, 0);
    EXPECT_FALSE(refused(frame));  // it ends exactly where the operation does
    ++frame.offset;
    EXPECT_TRUE(refused(frame)) << "it ends one byte beyond";
    frame.offset = frame.total + 1;
    EXPECT_TRUE(refused(frame)) << "it begins beyond";
    frame.offset = 0xFFFFFFFF;
    EXPECT_TRUE(refused(frame)) << "offset and length pass the end of 32 bits";
    frame = sample(FrameType::Send, 8);
    EXPECT_TRUE(refused(frame)) << "an unknown flag";
    frame = sample(FrameType::ReadRequest, 0);
    EXPECT_FALSE(refused(frame));
    frame.length = 1;
    EXPECT_TRUE(refused(frame)) << "a request with a payload";
    frame.length = 0;
    frame.offset = 1;
    EXPECT_TRUE(refused(frame)) << "a request with an offset";
}

/// Frames first, then their payloads.
class Apart {
  public:
    Apart& add(FrameType type, std::uint16_t length, std::uint8_t flags = data_whole | data_apart) {
        DataFrame frame;
        frame.type = type;
        frame.flags = flags;
        frame.length = length;
        frame.total = 100;
        frame.message = static_cast<std::uint32_t>(lengths_.size());
        const std::size_t at = frames_.size();
        frames_.resize(at + longest_data_frame_header);
        frames_.resize(at + encode(frames_.data() + at, frame));
        lengths_.push_back(length);
        return *this;
    }
    /// `missing`: of the last payload.
    [[nodiscard]] Body body(std::size_t missing = 0) const {
        Body all = frames_;
        for (std::size_t i = 0; i < lengths_.size(); ++i)
            all.insert(all.end(), lengths_[i], static_cast<std::byte>(i + 1));
        all.resize(all.size() - missing);
        return all;
    }
    /// All of them are read, each with its own payload. (One whose end is missing may be read as
    /// fewer, with payloads that are none: the checksum knows.)
    [[nodiscard]] bool read(const Body& body) const {
        const Exact exact{body};
        FrameReader reader(exact.span());
        for (std::size_t i = 0; i < lengths_.size(); ++i) {
            DataFrame frame;
            std::span<const std::byte> payload;
            if (!reader.next() || !reader.take(frame, payload)) return false;
            const Body own(lengths_[i], static_cast<std::byte>(i + 1));
            if (frame.message != i ||
                !std::equal(payload.begin(), payload.end(), own.begin(), own.end()))
                return false;
        }
        return !reader.next();
    }

  private:
    Body frames_;
    std::vector<std::uint16_t> lengths_;
};

TEST(Packet, PayloadsMayLieApart) {
    EXPECT_TRUE(Apart().add(FrameType::Send, 5).read(Apart().add(FrameType::Send, 5).body()));
    Apart many;
    many.add(FrameType::Send, 40)
        .add(FrameType::RdmaWrite, 7)
        .add(FrameType::Send, 0)
        .add(FrameType::Send, 9, data_whole | data_immediate | data_apart)
        .add(FrameType::ReadData, 3, data_apart)
        .add(FrameType::Send, 0);
    EXPECT_TRUE(many.read(many.body()));
    // Behind others.
    Body body = encoded(sample(FrameType::Send, 0));
    const std::size_t first = body.size();
    const Body apart = Apart().add(FrameType::Send, 5).body();
    body.insert(body.end(), apart.begin(), apart.end());
    FrameReader reader(body);
    DataFrame frame;
    std::span<const std::byte> payload;
    ASSERT_TRUE(reader.take(frame, payload));
    ASSERT_EQ(reader.next(), FrameType::Send);
    ASSERT_TRUE(reader.take(frame, payload));
    EXPECT_EQ(payload.data(), body.data() + first + 12);
    EXPECT_FALSE(reader.next());
}

TEST(Packet, PayloadsApartThatDoNotAddUpAreRefused) {
    Apart three;
    three.add(FrameType::Send, 20).add(FrameType::Send, 0).add(FrameType::RdmaWrite, 30);
    for (std::size_t missing = 1; missing <= three.body().size(); ++missing)
        EXPECT_FALSE(three.read(three.body(missing))) << missing;
    Body longer = three.body();
    longer.push_back(std::byte{0});
    EXPECT_FALSE(three.read(longer));
    const auto refused = [](const Apart& frames) { return !frames.read(frames.body()); };
    EXPECT_TRUE(refused(Apart().add(FrameType::Send, 3).add(FrameType::Send, 3, data_whole)))
        << "one behind them that is not apart";
    EXPECT_TRUE(refused(Apart().add(FrameType::ReadRequest, 0, data_apart)))
        << "a request, which has none";
    EXPECT_TRUE(refused(
        Apart().add(FrameType::Send, 3).add(FrameType::Send, 3, data_whole | data_apart | 8)))
        << "an unknown flag behind them";
}

TEST(Packet, AcknowledgementsComeBackAsTheyWere) {
    for (std::uint8_t ranges = 0; ranges <= AcknowledgementFrame::most_ranges; ++ranges) {
        AcknowledgementFrame frame;
        frame.link = 3;
        frame.ranges = ranges;
        frame.state = receiver_busy;
        frame.delay_us = 1234;
        frame.delivered = 0xFFFFFFFE;
        frame.largest = 0x80000001;
        for (std::uint32_t i = 0; i < ranges; ++i)
            frame.range[i] = {i + 1, i + 1U == ranges ? 0 : i + 7};
        const Body body = encoded(frame);
        FrameReader reader(body);
        ASSERT_EQ(reader.next(), FrameType::Acknowledgement);
        AcknowledgementFrame back;
        ASSERT_TRUE(reader.take(back));
        EXPECT_EQ(back.link, 3);
        EXPECT_EQ(back.ranges, ranges);
        EXPECT_EQ(back.state, receiver_busy);
        EXPECT_EQ(back.delay_us, frame.delay_us);
        EXPECT_EQ(back.delivered, frame.delivered);
        EXPECT_EQ(back.largest, frame.largest);
        for (std::uint32_t i = 0; i < ranges; ++i) {
            EXPECT_EQ(back.range[i].length, frame.range[i].length);
            EXPECT_EQ(back.range[i].gap, frame.range[i].gap);
        }
        EXPECT_FALSE(reader.next());
        for (std::size_t length = 1; length < body.size(); ++length) {
            const Exact cut{std::span(body).first(length)};
            FrameReader short_reader(cut.span());
            EXPECT_FALSE(short_reader.take(back)) << ranges << " ranges cut to " << length;
        }
    }
}

TEST(Packet, AcknowledgementsWithImpossibleRangesAreRefused) {
    const auto refused = [](const AcknowledgementFrame& frame) {
        const Body body = encoded(frame);
        FrameReader reader(body);
        AcknowledgementFrame back;
        return !reader.take(back);
    };
    AcknowledgementFrame frame;
    frame.ranges = 2;
    frame.range[0] = {1, 1};
    frame.range[1] = {1, 0};
    EXPECT_FALSE(refused(frame));
    frame.range[1].length = 0;
    EXPECT_TRUE(refused(frame)) << "an empty range";
    frame.range[1] = {1, 1};
    EXPECT_TRUE(refused(frame)) << "a gap below the last range";
    frame.range[0].gap = 0;
    frame.range[1].gap = 0;
    EXPECT_TRUE(refused(frame)) << "two ranges without a gap";

    // One range more than there may be, and bytes enough for it.
    Body body(AcknowledgementFrame::fixed_bytes + 17 * AcknowledgementFrame::range_bytes,
              std::byte{1});
    body[2] = std::byte{17};
    FrameReader reader(body);
    AcknowledgementFrame back;
    EXPECT_FALSE(reader.take(back));
}

TEST(Packet, PingsAndGoodbyesComeBackAsTheyWere) {
    Body body(PingFrame::bytes);
    for (const FrameType type : {FrameType::Ping, FrameType::Pong}) {
        EXPECT_EQ(encode_ping(body.data(), type, {0x1122334455667788}), body.size());
        FrameReader reader(body);
        ASSERT_EQ(reader.next(), type);
        PingFrame back;
        ASSERT_TRUE(reader.take(back));
        EXPECT_EQ(back.stamp, 0x1122334455667788U);
        EXPECT_FALSE(reader.next());
    }
    for (const FrameType type : {FrameType::Close, FrameType::Closed}) {
        EXPECT_EQ(encode_close(body.data(), type, {9, 0x12345678, 0x100}), body.size());
        FrameReader reader(body);
        ASSERT_EQ(reader.next(), type);
        CloseFrame back;
        ASSERT_TRUE(reader.take(back));
        EXPECT_EQ(back.reason, 9);
        EXPECT_EQ(back.message, 0x12345678U);
        EXPECT_EQ(back.status, 0x100U);
        EXPECT_FALSE(reader.next());
    }
    for (std::size_t length = 1; length < body.size(); ++length) {
        const Exact cut{std::span(body).first(length)};
        PingFrame ping;
        CloseFrame goodbye;
        EXPECT_FALSE(FrameReader(cut.span()).take(ping)) << length;
        EXPECT_FALSE(FrameReader(cut.span()).take(goodbye)) << length;
    }
}

TEST(Packet, FramesFollowEachOtherUntilThePadding) {
    Body body = encoded(sample(FrameType::Send, data_whole));
    AcknowledgementFrame acknowledgement;
    acknowledgement.ranges = 1;
    acknowledgement.range[0] = {5, 0};
    const Body second = encoded(acknowledgement);
    body.insert(body.end(), second.begin(), second.end());
    body.resize(body.size() + 40);  // zeros
    FrameReader reader(body);
    DataFrame frame;
    std::span<const std::byte> payload;
    ASSERT_EQ(reader.next(), FrameType::Send);
    ASSERT_TRUE(reader.take(frame, payload));
    ASSERT_EQ(reader.next(), FrameType::Acknowledgement);
    ASSERT_TRUE(reader.take(acknowledgement));
    EXPECT_FALSE(reader.next()) << "padding is no frame";
    EXPECT_FALSE(FrameReader({}).next());
}

TEST(Packet, AHalfNumberMeansTheNearestWholeOne) {
    EXPECT_EQ(expand(5, 3), 5U);
    EXPECT_EQ(expand(0, 0), 0U);
    EXPECT_EQ(expand(0x7FFFFFFF, 0), 0x7FFFFFFFU);
    // Nothing is below zero: a half that would be means one far above.
    EXPECT_EQ(expand(0xFFFFFFFF, 0), 0xFFFFFFFFU);
    EXPECT_EQ(expand(0xFFFFFFFF, 5), 0xFFFFFFFFU);
    // Past the end of 32 bits, in both directions.
    EXPECT_EQ(expand(3, 0xFFFFFFFE), 0x100000003U);
    EXPECT_EQ(expand(0xFFFFFFFE, 0x100000003), 0xFFFFFFFEU);
    std::mt19937_64 random(20261115);
    for (int i = 0; i < 10'000; ++i) {
        const std::uint64_t near = (random() >> 8) + (std::uint64_t{1} << 32);
        const auto distance = static_cast<std::int64_t>(random() % 0x80000000U) -
                              static_cast<std::int64_t>(random() % 0x80000000U);
        const std::uint64_t whole = near + static_cast<std::uint64_t>(distance);
        ASSERT_EQ(expand(static_cast<std::uint32_t>(whole), near), whole)
            << "near " << near << " distance " << distance;
    }
}
