// SPDX-License-Identifier: BSD-3-Clause
// contrib/wireshark/viaduct.lua on our own traffic: the packets of a simulated connection go into a
// capture file, and what tshark says about them is compared with what we wrote.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "na/net/simulated_network.hpp"
#include "wire/long_packet.hpp"
#include "wire/setup_message.hpp"

namespace via::test {
namespace {

using Bytes = std::vector<std::byte>;

/// A capture file of datagrams.
class Capture {
  public:
    explicit Capture(const std::filesystem::path& path) : file_(path, std::ios::binary) {
        put<std::uint32_t>(0xA1B2C3D4);
        put<std::uint16_t>(2);
        put<std::uint16_t>(4);
        put<std::uint64_t>(0);
        put<std::uint32_t>(65535);
        put<std::uint32_t>(101);  // raw IP
    }
    void add(Nanoseconds time, std::uint16_t from, std::uint16_t to,
             std::span<const std::byte> data) {
        const auto length = static_cast<std::uint16_t>(28 + data.size());
        put(static_cast<std::uint32_t>(time / 1'000'000'000));
        put(static_cast<std::uint32_t>(time % 1'000'000'000 / 1000));
        put<std::uint32_t>(length);
        put<std::uint32_t>(length);
        put_high<std::uint16_t>(0x4500);
        put_high(length);
        put_high<std::uint32_t>(0);
        put_high<std::uint32_t>(0x40110000);  // 64 hops, UDP
        put_high<std::uint32_t>(0x0A000001);
        put_high<std::uint32_t>(0x0A000002);
        put_high(from);
        put_high(to);
        put_high(static_cast<std::uint16_t>(8 + data.size()));
        put_high<std::uint16_t>(0);
        file_.write(reinterpret_cast<const char*>(data.data()),
                    static_cast<std::streamsize>(data.size()));
        file_.flush();
    }

  private:
    template <class Number>
    void put(Number value) {
        file_.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
    template <class Number>
    void put_high(Number value) {
        for (std::size_t i = sizeof value; i-- != 0;)
            file_.put(static_cast<char>(value >> (8 * i)));
    }
    std::ofstream file_;
};

/// The same line as tshark prints for one of our packets, by our own reader.
class Line {
  public:
    explicit Line(std::span<const std::byte> packet) {
        const wire::PacketHeader header = wire::decode_packet_header(packet.data());
        wire::FrameReader reader(packet.subspan(wire::PacketHeader::bytes));
        std::string types;
        std::string messages;
        std::string lengths;
        std::string totals;
        std::string immediates;
        std::string handles;
        std::string delivered;
        std::string ranges;
        std::string stamps;
        std::string statuses;
        if ((header.flags & wire::packet_continues) != 0) {
            const auto body = packet.subspan(wire::PacketHeader::bytes);
            const auto piece = wire::decode_continuation(header, body);
            EXPECT_TRUE(piece);
            add(messages, piece->message);
            add(lengths, body.size() - wire::Continuation::bytes);
            reader = wire::FrameReader({});
        }
        while (const auto type = reader.next()) {
            add(types, static_cast<std::uint64_t>(*type));
            wire::AcknowledgementFrame acknowledgement;
            wire::PingFrame ping;
            wire::CloseFrame goodbye;
            wire::DataFrame data;
            std::span<const std::byte> payload;
            switch (*type) {
                case wire::FrameType::Acknowledgement:
                    EXPECT_TRUE(reader.take(acknowledgement));
                    add(delivered, acknowledgement.delivered);
                    for (std::uint32_t i = 0; i < acknowledgement.ranges; ++i)
                        add(ranges, acknowledgement.range[i].length);
                    break;
                case wire::FrameType::Ping:
                case wire::FrameType::Pong:
                    EXPECT_TRUE(reader.take(ping));
                    add(stamps, hexadecimal(ping.stamp, 16));
                    break;
                case wire::FrameType::Close:
                case wire::FrameType::Closed:
                    EXPECT_TRUE(reader.take(goodbye));
                    add(statuses, hexadecimal(goodbye.status, 8));
                    break;
                default:
                    EXPECT_TRUE(reader.take(data, payload));
                    add(messages, data.message);
                    add(lengths, data.length);
                    if (!data.whole()) add(totals, data.total);
                    if (data.has_immediate()) add(immediates, hexadecimal(data.immediate, 8));
                    if (data.has_target()) add(handles, hexadecimal(data.handle, 8));
            }
        }
        std::string numbers;
        add(numbers, header.number);
        std::string links;
        add(links, header.link);
        for (const std::string& field :
             {std::string(), hexadecimal(header.token, 8), numbers, links, types, messages, lengths,
              totals, immediates, handles, delivered, ranges, stamps, statuses})
            text += (text.empty() && field.empty() ? "" : "|") + field;
    }
    std::string text;

  private:
    static void add(std::string& list, const std::string& value) {
        if (!list.empty()) list += ',';
        list += value;
    }
    static void add(std::string& list, std::uint64_t value) { add(list, std::to_string(value)); }
    static std::string hexadecimal(std::uint64_t value, int digits) {
        std::array<char, 32> out{};
        std::snprintf(out.data(), out.size(), "0x%0*llx", digits,
                      static_cast<unsigned long long>(value));
        return out.data();
    }
};

constexpr const char* fields =
    "-e viaduct_setup.kind -e viaduct.token -e viaduct.number -e viaduct.link -e viaduct.type "
    "-e viaduct.data.message -e viaduct.data.length -e viaduct.data.total "
    "-e viaduct.data.immediate -e viaduct.data.handle -e viaduct.acknowledgement.delivered "
    "-e viaduct.acknowledgement.range.packets -e viaduct.stamp -e viaduct.close.status";

/// Lines of what a command says.
std::vector<std::string> output_of(const std::string& command) {
    std::vector<std::string> lines;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return lines;
    std::string all;
    std::array<char, 4096> buffer;
    while (const std::size_t bytes = std::fread(buffer.data(), 1, buffer.size(), pipe))
        all.append(buffer.data(), bytes);
    pclose(pipe);
    std::istringstream text(all);
    for (std::string line; std::getline(text, line);)
        lines.push_back(line);
    return lines;
}

class Wireshark : public testing::Test {
  protected:
    void SetUp() override {
        if (std::system("command -v tshark >/dev/null 2>&1") != 0)
            GTEST_SKIP() << "tshark is not installed (Debian: tshark)";
        folder_ = std::filesystem::temp_directory_path() /
                  ("viaduct-wireshark-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
    }
    ~Wireshark() override {
        std::error_code ignored;
        if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
    }
    [[nodiscard]] std::vector<std::string> tshark(const std::string& options) const {
        // Nothing of the user's own settings.
        return output_of("HOME=" + folder_.string() +
                         " timeout 60 tshark -X lua_script:" + VIADUCT_LUA + " -r " +
                         file().string() + " " + options + " 2>" + (folder_ / "errors").string());
    }
    [[nodiscard]] std::filesystem::path file() const { return folder_ / "run.pcap"; }
    /// What tshark complained about, but that root runs it.
    [[nodiscard]] std::string complaints() const {
        std::ifstream errors(folder_ / "errors");
        std::string all;
        for (std::string line; std::getline(errors, line);)
            if (line.find("Running as user") == std::string::npos) all += line + "\n";
        return all;
    }

  private:
    std::filesystem::path folder_;
};

TEST_F(Wireshark, ShowsEveryPacketAsItIs) {
    Capture capture(file());
    std::vector<std::string> expected;
    NetworkOptions options;
    options.links = 2;
    options.long_packets = false;
    options.faults.drop = 500;
    options.faults.delay = 100 * microsecond;
    {
        // Set-up, by its port and its first bytes.
        const wire::Bytes hello = wire::encode_hello({1, 2, 3}, {4, 5, 6});
        capture.add(0, 40'000, 7471, std::as_bytes(std::span(hello)));
        expected.emplace_back("1|||||||||||||");
        const wire::Bytes challenge = wire::encode_challenge({1, 2, 3}, {4, 5, 6}, {});
        capture.add(0, 7471, 40'000, std::as_bytes(std::span(challenge)));
        expected.emplace_back("2|||||||||||||");
    }
    SimulatedNetwork network(6, options);
    network.on_packet = [&](std::size_t from, std::size_t link, std::span<const std::byte> packet) {
        const auto port = static_cast<std::uint16_t>(50'000 + 10 * link);
        capture.add(network.now(), static_cast<std::uint16_t>(port + from),
                    static_cast<std::uint16_t>(port + 1 - from), packet);
        expected.push_back(Line(packet).text);
    };
    Bytes memory(64 * 1024);
    const std::uint32_t handle = SimulatedNetwork::register_memory(
        memory.data(), memory.size(), ka::right_rdma_read | ka::right_rdma_write);
    network.run(20 * millisecond, [] { return false; });
    const auto part = [&](std::size_t bytes) { return std::span(memory).first(bytes); };
    for (std::size_t side = 0; side < 2; ++side) {
        auto& one = network.side(side);
        for (std::uint64_t i = 0; i < 4; ++i)
            one.post_receive(part(50'000), handle, i);
        one.post_send(part(40), handle, std::nullopt, 1);
        one.post_send({}, 0, 7, 2);
        one.post_send(part(30'000), handle, 8, 3);
        one.post_write(part(5'000), handle, memory.data(), handle, 9, 4);
        one.post_read(part(3'000), handle, memory.data(), handle, 5);
    }
    network.poll(0);
    network.poll(1);
    network.run(100 * millisecond, [] { return false; });
    network.side(0).session.detach();
    network.side(0).transport.close({}, network.now());
    network.run(100 * millisecond, [] { return false; });
    SimulatedNetwork::deregister_memory(handle);
    ASSERT_GT(expected.size(), 50U);

    const auto lines = tshark(std::string("-T fields -E separator='|' -E occurrence=a ") + fields);
    EXPECT_EQ(complaints(), "");
    ASSERT_EQ(lines.size(), expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i)
        ASSERT_EQ(lines[i], expected[i]) << "packet " << i + 1;
    EXPECT_TRUE(tshark("-Y viaduct.malformed").empty());
    EXPECT_EQ(tshark("-Y viaduct_setup").size(), 2U);
    EXPECT_GT(tshark("-Y viaduct.flags.continues==1").size(), 10U);
}

TEST_F(Wireshark, ShowsLongPackets) {
    Capture capture(file());
    NetworkOptions options;
    options.faults.jitter = 0;
    SimulatedNetwork network(8, options);
    std::vector<std::string> expected;  // number, length of the packet, length of a further piece
    std::map<std::size_t, std::uint32_t> tokens;
    std::size_t joined = 0;
    network.on_packet = [&](std::size_t from, std::size_t, std::span<const std::byte> packet) {
        capture.add(network.now(), static_cast<std::uint16_t>(50'000 + from),
                    static_cast<std::uint16_t>(50'001 - from), packet);
        const auto word = wire::load<std::uint32_t>(packet.data());
        const std::uint32_t token = tokens.emplace(from, word).first->second;
        if (word == ~token) {
            const auto header =
                wire::decode_packet_header(packet.data() + wire::LongPacketPrefix::bytes);
            const auto prefix = wire::decode_long_packet_prefix(packet);
            ASSERT_TRUE(prefix);
            expected.push_back(std::to_string(header.number) + "|" +
                               std::to_string(prefix->length) + "|");
            ++joined;
        } else if (word == token) {
            expected.push_back(std::to_string(wire::decode_packet_header(packet.data()).number) +
                               "||");
        } else {
            expected.push_back("||" + std::to_string(packet.size()));
        }
    };
    Bytes memory(200 * 1024);
    const std::uint32_t handle =
        SimulatedNetwork::register_memory(memory.data(), memory.size(), ka::right_rdma_write);
    network.run(20 * millisecond, [] { return false; });
    // The first long packet has to come through before there are others.
    for (std::uint64_t i = 0; i < 2; ++i) {
        network.side(1).post_receive(std::span(memory).first(150'000), handle, i);
        network.side(0).post_send(std::span(memory).first(150'000), handle, std::nullopt, i);
        network.poll(0);
        network.run(20 * millisecond, [] { return false; });
    }
    SimulatedNetwork::deregister_memory(handle);
    ASSERT_GE(joined, 3U);

    const auto lines = tshark(
        "-T fields -E separator='|' -e viaduct.number -e viaduct.long.length "
        "-e viaduct.long.part_length");
    EXPECT_EQ(complaints(), "");
    EXPECT_EQ(lines, expected);
    EXPECT_TRUE(tshark("-Y viaduct.malformed").empty());
    EXPECT_GE(tshark("-Y 'viaduct.long.length && viaduct.data.total==150000'").size(), 3U);
}

TEST_F(Wireshark, ShowsPayloadsThatLieApart) {
    Capture capture(file());
    NetworkOptions options;
    options.faults.jitter = 0;
    SimulatedNetwork network(9, options);
    network.on_packet = [&](std::size_t from, std::size_t, std::span<const std::byte> packet) {
        capture.add(network.now(), static_cast<std::uint16_t>(50'000 + from),
                    static_cast<std::uint16_t>(50'001 - from), packet);
    };
    constexpr std::size_t each = 4'000;
    constexpr std::size_t count = 40;
    Bytes memory(count * each);
    const std::uint32_t handle = SimulatedNetwork::register_memory(memory.data(), memory.size(), 0);
    network.run(20 * millisecond, [] { return false; });
    // The first long packet has to come through before there are others.
    for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < count; ++i) {
            const auto part = std::span(memory).subspan(i * each, each);
            network.side(1).post_receive(part, handle, i);
            network.side(0).post_send(part, handle, std::nullopt, i);
        }
        network.poll(0);
        network.run(20 * millisecond, [] { return false; });
    }
    SimulatedNetwork::deregister_memory(handle);

    const auto lines = tshark(
        "-Y viaduct.data.flags.apart==1 -T fields -E separator='|' -E occurrence=a "
        "-e viaduct.data.message -e viaduct.data.length");
    EXPECT_EQ(complaints(), "");
    EXPECT_TRUE(tshark("-Y viaduct.malformed").empty());
    ASSERT_GE(lines.size(), 3U);
    // Each packet goes on where the one before it ended.
    std::optional<std::uint64_t> next;
    for (const std::string& line : lines) {
        std::istringstream messages(line.substr(0, line.find('|')));
        std::size_t frames = 0;
        for (std::string number; std::getline(messages, number, ','); ++frames) {
            const std::uint64_t message = std::stoull(number);
            if (next && frames != 0) {
                EXPECT_EQ(message, *next) << line;
            }
            next = message + 1;
        }
        EXPECT_GT(frames, 8U);
        std::string lengths = "4000";
        for (std::size_t i = 1; i < frames; ++i)
            lengths += ",4000";
        EXPECT_EQ(line.substr(line.find('|') + 1), lengths);
    }
}

TEST_F(Wireshark, ShowsSealedPacketsWhenItIsTold) {
    std::size_t packets = 0;
    {
        Capture capture(file());
        NetworkOptions options;
        options.sealed = true;
        SimulatedNetwork network(7, options);
        network.on_packet = [&](std::size_t from, std::size_t, std::span<const std::byte> packet) {
            capture.add(network.now(), static_cast<std::uint16_t>(50'000 + from),
                        static_cast<std::uint16_t>(50'001 - from), packet);
            ++packets;
        };
        network.run(1'000 * millisecond, [] { return false; });
    }
    ASSERT_GT(packets, 2U);
    const auto lines = tshark(
        "-d udp.port==50000,viaduct -T fields -E separator='|' -e viaduct.flags.sealed "
        "-e viaduct.type");
    ASSERT_EQ(lines.size(), packets);
    for (const std::string& line : lines)
        EXPECT_TRUE(line == "1|" || line == "True|") << line;
}

}  // namespace
}  // namespace via::test
