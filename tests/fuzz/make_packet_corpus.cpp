// SPDX-License-Identifier: BSD-3-Clause
// make_packet_corpus <folder>: the seeds of packet_fuzz and connection_fuzz, from the packets of
// simulated connections. Run it again when the packets' format changes.
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "na/net/simulated_network.hpp"

using namespace via;
using namespace via::test;

namespace {

using Bytes = std::vector<std::byte>;

void write_file(const std::filesystem::path& path, const Bytes& bytes) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
}

void append(Bytes& to, std::span<const std::byte> bytes) {
    to.insert(to.end(), bytes.begin(), bytes.end());
}
template <class Number>
void append_number(Bytes& to, Number value) {
    append(to, std::as_bytes(std::span(&value, 1)));
}

/// Calls `each(type, data frame, payload)` for all frames; the last two count for data only.
template <class Each>
void for_each_frame(std::span<const std::byte> body, Each each) {
    wire::FrameReader reader(body);
    while (const auto type = reader.next()) {
        wire::AcknowledgementFrame acknowledgement;
        wire::PingFrame ping;
        wire::CloseFrame goodbye;
        wire::DataFrame data;
        std::span<const std::byte> payload;
        bool taken = false;
        if (*type == wire::FrameType::Acknowledgement)
            taken = reader.take(acknowledgement);
        else if (*type == wire::FrameType::Ping || *type == wire::FrameType::Pong)
            taken = reader.take(ping);
        else if (*type == wire::FrameType::Close || *type == wire::FrameType::Closed)
            taken = reader.take(goodbye);
        else
            taken = reader.take(data, payload);
        if (!taken) return;
        each(*type, data, payload);
    }
}

/// Addresses differ from run to run: an offset and a small number stand for them.
void replace_targets(std::span<std::byte> body) {
    for_each_frame(body, [&](wire::FrameType type, const wire::DataFrame& data,
                             std::span<const std::byte> payload) {
        if (type < wire::FrameType::Send || !data.has_target()) return;
        std::byte* target = body.data() + (payload.data() - body.data()) - 12;
        wire::store(target, std::uint64_t{64});
        wire::store(target + 8, std::uint32_t{0});
    });
}

/// What the packet is about: the types of its frames.
std::string name_of_packet(std::span<const std::byte> body) {
    static constexpr std::array names{
        "pad",  "acknowledgement", "ping",         "pong",     "close", "closed", "6", "7",
        "send", "write",           "read-request", "read-data"};
    std::string name;
    for_each_frame(body, [&](wire::FrameType type, const auto&, auto) {
        if (name.size() > 40) return;
        if (!name.empty()) name += '+';
        name += names.at(static_cast<std::size_t>(type));
    });
    return name;
}

void record(const std::filesystem::path& folder, std::uint32_t reliability, std::uint8_t level) {
    NetworkOptions options;
    options.links = 2;
    options.reliability = reliability;
    options.faults.drop = 300;
    options.long_packets = false;  // a script has packets, not datagrams
    options.faults.delay = 100 * microsecond;
    SimulatedNetwork network(5, options);
    // The script of a victim at side 0: the first byte says which level, what comes from side 1 is
    // its packets, what the program does itself goes between them.
    Bytes script;
    append_number(script, level);
    std::map<std::string, Bytes> packets;
    network.on_packet = [&](std::size_t from, std::size_t link, std::span<const std::byte> packet) {
        Bytes copy(packet.begin(), packet.end());
        const std::span body = std::span(copy).subspan(wire::PacketHeader::bytes);
        const wire::PacketHeader header = wire::decode_packet_header(copy.data());
        const bool continues = (header.flags & wire::packet_continues) != 0;
        if (!continues) replace_targets(body);
        const std::string name = continues ? "continuation" : name_of_packet(body);
        if (!name.empty()) packets.emplace(name, copy);
        if (from == 1 && continues && link == 0) {
            append_number(script, std::uint8_t{2});
            append_number(script, header.message_high);
            append_number(script, static_cast<std::uint16_t>(body.size()));
            append(script, body);
            append_number(script, std::uint8_t{15});
        } else if (from == 1 && !continues && script.size() < 2'000) {
            append_number(script, static_cast<std::uint8_t>(link == 0 ? 0 : 3));
            append_number(script, static_cast<std::uint16_t>(body.size()));
            append(script, body);
            append_number(script, std::uint8_t{15});  // the victim polls
        }
    };
    Bytes memory(64 * 1024);
    const std::uint32_t handle = SimulatedNetwork::register_memory(
        memory.data(), memory.size(), ka::right_rdma_read | ka::right_rdma_write);
    network.run(20 * millisecond, [] { return false; });
    const auto part = [&](std::size_t bytes) { return std::span(memory).first(bytes); };
    for (std::uint64_t round = 0; round < 3; ++round) {
        for (std::size_t side = 0; side < 2; ++side) {
            auto& one = network.side(side);
            for (std::uint64_t i = 0; i < 3; ++i)
                one.post_receive(part(4096), handle, i);
            one.post_send(part(40), handle, std::nullopt, 1);
            one.post_send(part(round == 0 ? 0 : 1'900), handle, 7, 2);
            one.post_write(part(100), handle, memory.data(), handle, std::nullopt, 3);
            one.post_write(part(10), handle, memory.data(), handle, 9, 4);
            if (reliability != na::unreliable)
                one.post_read(part(50), handle, memory.data(), handle, 5);
        }
        // The same in the script.
        for (int i = 0; i < 3; ++i) {
            append_number(script, std::uint8_t{6});
            append_number(script, std::uint16_t{0});
            append_number(script, std::uint16_t{4095});
        }
        append_number(script, std::uint8_t{8});
        append_number(script, std::uint8_t{0});
        append_number(script, std::uint16_t{0});
        append_number(script, std::uint16_t{39});
        if (reliability != na::unreliable) {
            append_number(script, std::uint8_t{9});
            append_number(script, std::uint8_t{4});
            append_number(script, std::uint16_t{0});
            append_number(script, std::uint16_t{49});
            append_number(script, std::uint32_t{0});
        }
        append_number(script, std::uint8_t{15});
        network.poll(0);
        network.poll(1);
        network.run(30 * millisecond, [] { return false; });
    }
    // One that is long enough for continuations.
    network.side(0).post_receive(part(6'000), handle, 9);
    append_number(script, std::uint8_t{6});
    append_number(script, std::uint16_t{0});
    append_number(script, std::uint16_t{4095});
    network.side(1).post_send(part(6'000), handle, std::nullopt, 9);
    network.poll(1);
    network.run(30 * millisecond, [] { return false; });
    network.run(1'200 * millisecond, [] { return false; });  // idle links are pinged
    network.side(1).session.detach();
    network.side(1).transport.close({}, network.now());
    network.run(100 * millisecond, [] { return false; });
    const std::string label = level == 0 ? "unreliable" : level == 1 ? "delivery" : "reception";
    write_file(folder / "connection_fuzz" / label, script);
    for (const auto& [name, bytes] : packets)
        write_file(folder / "packet_fuzz" / name, bytes);
}

/// What honest peers never send: shapes that random changes of honest packets hardly reach.
class Crafted {
  public:
    Crafted() {
        append_number(script, std::uint8_t{1});
        for (int i = 0; i < 4; ++i) {
            append_number(script, std::uint8_t{6});
            append_number(script, std::uint16_t{0});
            append_number(script, std::uint16_t{63});
        }
    }
    Crafted& frame(wire::FrameType type, std::uint32_t message, std::uint32_t receive,
                   std::uint32_t offset, std::uint32_t total, std::uint8_t flags = 0,
                   std::uint32_t handle = 0) {
        wire::DataFrame frame;
        frame.type = type;
        frame.flags = flags;
        frame.message = message;
        frame.receive = receive;
        frame.offset = offset;
        frame.total = total;
        frame.length = type == wire::FrameType::ReadRequest ? 0 : 8;
        frame.address = 64;
        frame.handle = handle;
        Bytes body(wire::longest_data_frame_header);
        body.resize(wire::encode(body.data(), frame) + frame.length);
        append_number(script, std::uint8_t{0});
        append_number(script, static_cast<std::uint16_t>(body.size()));
        append(script, body);
        return *this;
    }
    /// Messages of 8 bytes from that number on, their payloads behind all frames. With a total of
    /// more than 8 bytes: the last of the first one, and the first of those that follow.
    Crafted& apart(std::uint32_t message, std::uint32_t count, std::uint8_t missing = 0,
                   std::uint32_t total = 8) {
        Bytes body;
        for (std::uint32_t i = 0; i < count; ++i) {
            wire::DataFrame frame;
            frame.flags = wire::data_apart | (total == 8 ? wire::data_whole : 0);
            frame.length = 8;
            frame.message = frame.receive = message + i;
            frame.total = total;
            frame.offset = i == 0 ? total - 8 : 0;
            const std::size_t at = body.size();
            body.resize(at + wire::longest_data_frame_header);
            body.resize(at + wire::encode(body.data() + at, frame));
        }
        body.resize(body.size() + std::size_t{8} * count - missing);
        append_number(script, std::uint8_t{0});
        append_number(script, static_cast<std::uint16_t>(body.size()));
        append(script, body);
        return *this;
    }
    Crafted& continuation(std::uint32_t message, std::uint32_t offset) {
        std::array<std::byte, wire::PacketHeader::bytes + 8> packet{};
        wire::encode(packet.data(), wire::Continuation{message, offset});
        append_number(script, std::uint8_t{2});
        append_number(script, static_cast<std::uint8_t>(message >> 16));
        append_number(script, static_cast<std::uint16_t>(wire::Continuation::bytes + 8));
        append(script, std::span(packet).subspan(wire::PacketHeader::bytes));
        append_number(script, std::array<std::byte, 6>{});
        return *this;
    }
    /// The next packet comes as a long one: together, or one datagram after the other.
    Crafted& cut(std::uint8_t datagram_bytes, bool one_by_one) {
        append_number(script, std::uint8_t{14});
        append_number(script, static_cast<std::uint8_t>(datagram_bytes + 1 + (one_by_one ? 2 : 0)));
        return *this;
    }
    Bytes script;
};

void craft(const std::filesystem::path& folder) {
    using wire::FrameType;
    const auto save = [&](const char* name, const Crafted& crafted) {
        write_file(folder / "connection_fuzz" / name, crafted.script);
    };
    constexpr std::uint8_t whole_immediate = wire::data_whole | wire::data_immediate;
    save("two-messages-for-one-receive", Crafted()
                                             .frame(FrameType::Send, 1, 0, 0, 64)
                                             .frame(FrameType::Send, 0, 0, 0, 8)
                                             .frame(FrameType::Send, 1, 0, 8, 64));
    save("write-takes-a-messages-receive",
         Crafted()
             .frame(FrameType::Send, 1, 0, 0, 64)
             .frame(FrameType::RdmaWrite, 0, 0, 0, 8, whole_immediate)
             .frame(FrameType::Send, 1, 0, 8, 64));
    Crafted reads;
    for (std::uint32_t i = 0; i < 4; ++i)
        reads.frame(FrameType::ReadRequest, i, 0, 0, 1000 * i);
    save("reads", reads);
    save("forbidden-write", Crafted().frame(FrameType::RdmaWrite, 0, 0, 0, 8, wire::data_whole, 1));
    Crafted crumbs;
    for (std::uint32_t i = 0; i < 20; ++i)
        crumbs.frame(FrameType::RdmaWrite, 2, 0, 1000 - 20 * i, 4000);
    save("crumbs", crumbs);
    save("continuations", Crafted()
                              .continuation(0, 8)
                              .frame(FrameType::Send, 0, 0, 0, 32)
                              .continuation(0, 16)
                              .continuation(0, 8)
                              .continuation(0, 24)
                              .frame(FrameType::RdmaWrite, 1, 0, 0, 24)
                              .continuation(1, 8)
                              .continuation(0x800001, 8)
                              .continuation(1, 20));
    save("apart", Crafted().apart(0, 2).apart(2, 2, 1));
    save("apart-pieces", Crafted()
                             .frame(FrameType::Send, 0, 0, 0, 16)
                             .apart(0, 2, 0, 16)
                             .apart(1, 2, 0, 16)
                             .apart(2, 3, 0, 24));
    save("long-packets", Crafted()
                             .cut(32, false)
                             .frame(FrameType::Send, 0, 0, 0, 32)
                             .cut(32, true)
                             .continuation(0, 8)
                             .cut(40, true)
                             .frame(FrameType::Send, 0, 0, 16, 32)
                             .cut(40, false)
                             .continuation(0, 24)
                             .frame(FrameType::Send, 1, 1, 0, 8));
}

/// A packet whose payloads lie apart, for the reader alone.
void craft_packet(const std::filesystem::path& folder) {
    const Bytes script = Crafted().apart(0, 3).script;
    Bytes packet(wire::PacketHeader::bytes);
    wire::encode(packet.data(), wire::PacketHeader{});
    const std::size_t body = 3 * (12 + 8);
    packet.insert(packet.end(), script.end() - static_cast<long>(body), script.end());
    write_file(folder / "packet_fuzz" / "apart", packet);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "make_packet_corpus <folder>\n");
        return 2;
    }
    craft(arguments[1]);
    craft_packet(arguments[1]);
    record(arguments[1], na::unreliable, 0);
    record(arguments[1], na::reliable_delivery, 1);
    record(arguments[1], na::reliable_reception, 2);
    return 0;
}
