// SPDX-License-Identifier: BSD-3-Clause
// The role "enemy": connects to the victim as everybody does, then writes garbage into every shared
// page it can reach, or asks for memory it was not granted.
#include <dirent.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "na/seeded.hpp"
#include "na/shm/channel.hpp"
#include "system/hostile_bout.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t enemy_memory_bytes = 1U << 20;

[[nodiscard]] constexpr bool may_write(std::uint32_t place) {
    return place == Granted || place == GrantedKmem;
}
[[nodiscard]] constexpr bool may_read(std::uint32_t place) {
    return may_write(place) || place == ReadOnly;
}

struct SharedMapping {
    std::string name;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
};

/// Maps once more whatever this process shares with others and may write. It stays when the library
/// lets go of it.
class Reach {
  public:
    Reach() {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            const std::size_t name = line.find("/memfd:viaduct-");
            if (name == std::string::npos) continue;
            std::istringstream fields(line);
            std::uint64_t first = 0;
            std::uint64_t last = 0;
            char dash = 0;
            std::string access;
            fields >> std::hex >> first >> dash >> last >> access;
            auto* address = reinterpret_cast<void*>(first);
            const std::size_t bytes = last - first;
            if (access.find('w') == std::string::npos) {
                // The tables of registered memory are the agent's alone.
                if (mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0)
                    throw std::runtime_error("could make a table writable: " + line);
                ++read_only;
                continue;
            }
            // Of size 0: not moved but mapped again.
            void* again = mremap(address, 0, bytes, MREMAP_MAYMOVE);
            if (again == MAP_FAILED) continue;
            mappings.push_back({line.substr(name), static_cast<std::byte*>(again), bytes});
        }
        DIR* folder = opendir("/proc/self/fd");
        while (const dirent* entry = readdir(folder)) {
            const int fd = std::atoi(entry->d_name);
            char path[256] = {};
            const std::string link = std::string("/proc/self/fd/") + entry->d_name;
            if (readlink(link.c_str(), path, sizeof path - 1) <= 0) continue;
            if (std::strncmp(path, "/memfd:viaduct-", 15) != 0) continue;
            const off_t end = lseek(fd, 0, SEEK_END);
            if (end <= 0) continue;
            void* mapped = mmap(nullptr, static_cast<std::size_t>(end), PROT_READ | PROT_WRITE,
                                MAP_SHARED, fd, 0);
            if (mapped == MAP_FAILED) continue;
            if (std::strstr(path, "rmmt") != nullptr)
                throw std::runtime_error("could map a table for writing");
            mappings.push_back(
                {path, static_cast<std::byte*>(mapped), static_cast<std::size_t>(end)});
        }
        closedir(folder);
    }
    Reach(const Reach&) = delete;
    Reach& operator=(const Reach&) = delete;
    ~Reach() {
        for (const SharedMapping& mapping : mappings)
            munmap(mapping.data, mapping.bytes);
    }
    [[nodiscard]] std::vector<SharedMapping> named(const char* part) const {
        std::vector<SharedMapping> result;
        for (const SharedMapping& mapping : mappings)
            if (mapping.name.find(part) != std::string::npos) result.push_back(mapping);
        return result;
    }

    std::vector<SharedMapping> mappings;
    int read_only = 0;
};

class Enemy {
  public:
    Enemy(const Bout& bout, const Reach& reach)
        : bout_(bout),
          random_(bout.seed),
          all_(reach.mappings),
          channels_(reach.named("channel")),
          pages_(reach.named("doorbell")) {}

    void step() {
        switch (bout_.attack) {
            case Attack::Requests:
                return;
            case Attack::Positions:
                if (random_.one_in(2))
                    write_control();
                else
                    write_word(random_.one_in(2) ? pages_ : quiet_ones());
                return;
            case Attack::Frames:
                if (random_.one_in(8))
                    write_control();
                else
                    write_frame();
                return;
            case Attack::Anything:
                break;
        }
        switch (random_.below(8)) {
            case 0:
                return write_burst();
            case 1:
                return write_control();
            case 2:
                return write_frame();
            default:
                return write_word(all_);
        }
    }

  private:
    [[nodiscard]] const std::vector<SharedMapping>& quiet_ones() {
        if (quiet_.empty())
            for (const SharedMapping& mapping : all_)
                if (mapping.name.find("channel") == std::string::npos) quiet_.push_back(mapping);
        return quiet_;
    }
    template <typename Item>
    [[nodiscard]] const Item& any(const std::vector<Item>& items) {
        return items[random_.below(static_cast<std::uint32_t>(items.size()))];
    }
    /// Mostly where something stands, and not so far into arenas that they fill up memory.
    [[nodiscard]] std::size_t any_offset(const SharedMapping& mapping) {
        const std::size_t most = std::min<std::size_t>(mapping.bytes, 1U << 20);
        const std::size_t range = random_.one_in(2) ? std::min<std::size_t>(most, 4096) : most;
        return random_.next() % (range - 8);
    }
    [[nodiscard]] std::uint64_t plausible() {
        const Target& target = bout_.targets[random_.below(place_count)];
        switch (random_.below(10)) {
            case 0:
                return 0;
            case 1:
                return random_.below(5);
            case 2:
                return ~0ULL;
            case 3:
                return random_.below(70000);
            case 4:
                return target.address;
            case 5:
                return target.handle;
            case 6:
                return std::uint64_t{target.handle} << 32 | random_.below(region_bytes);
            case 7:
                return 1ULL << random_.below(64);
            case 8:
                return any_header(random_.one_in(2), 4);
            default:
                return random_.next();
        }
    }
    [[nodiscard]] std::uint64_t any_header(bool lap, std::uint32_t most_cells) {
        na::shm::FrameHeader header;
        const auto kinds = static_cast<std::uint32_t>(na::shm::FrameKind::Last);
        header.kind = static_cast<na::shm::FrameKind>(1 + random_.below(kinds));
        header.cells = static_cast<std::uint8_t>(random_.between(1, most_cells));
        header.flags = static_cast<std::uint8_t>(random_.below(8));
        header.length = static_cast<std::uint16_t>(
            random_.below(na::shm::payload_of_cells(header.cells) + (random_.one_in(20) ? 9 : 1)));
        header.argument = static_cast<std::uint32_t>(plausible() >> (32 * random_.below(2)));
        return na::shm::encode(header, lap);
    }

    void write_word(const std::vector<SharedMapping>& where) {
        const SharedMapping& mapping = any(where);
        std::size_t offset = any_offset(mapping);
        if (!random_.one_in(4)) offset -= offset % 8;
        const std::uint64_t value = plausible();
        std::memcpy(mapping.data + offset, &value, random_.one_in(2) ? 8 : 4);
    }
    void write_burst() {
        const SharedMapping& mapping = any(all_);
        const std::size_t offset = any_offset(mapping);
        const std::size_t bytes =
            std::min<std::size_t>(random_.between(8, 4096), mapping.bytes - offset);
        const bool zero = random_.one_in(2);
        for (std::size_t i = 0; i < bytes; ++i)
            mapping.data[offset + i] = zero ? std::byte{} : static_cast<std::byte>(random_.next());
    }
    [[nodiscard]] na::shm::Direction any_direction() {
        const SharedMapping& channel = any(channels_);
        const auto half = static_cast<std::uint32_t>(channel.bytes / 2);
        // The number of lines only decides how far into the ring a frame is written.
        return na::shm::Direction::at(channel.data + (random_.one_in(2) ? half : 0), {32, half});
    }
    void write_control() {
        na::shm::DirectionControl& control = *any_direction().control;
        const std::uint64_t value = plausible();
        const auto word = static_cast<std::uint32_t>(value);
        switch (random_.below(8)) {
            case 0:
                return control.consumed.lines.store(value);
            case 1:
                return control.consumed.chunks.store(value);
            case 2:
                return control.consumed.lines.store(control.consumed.lines.load() +
                                                    random_.below(40));
            case 3:
                return control.consumed.chunks.store(control.consumed.chunks.load() +
                                                     random_.below(40));
            case 4:
                return control.attention.wanted.store(word);
            case 5:
                return control.producer.can_pull.store(word % 4);
            case 6:
                return control.producer.can_map.store(word);
            default:
                return control.producer.cpu.store(word % 8);
        }
    }
    /// A line with one well-formed frame that asks for what was not granted, or says anything else.
    void write_frame() {
        const na::shm::Direction direction = any_direction();
        na::shm::FrameLine& line = direction.lines[random_.below(32)];
        const bool lap = random_.one_in(2);
        const Target& target = bout_.targets[random_.below(place_count)];
        const std::uint64_t address =
            target.address + (random_.one_in(3) ? random_.below(2 * region_bytes) - 8 : 0);
        const std::uint32_t bytes =
            random_.one_in(2) ? random_.below(300) : random_.below(2 * region_bytes);
        const na::shm::RingChunk chunk{
            static_cast<std::uint16_t>(random_.one_in(8) ? random_.next() : random_.below(100)),
            static_cast<std::uint16_t>(random_.one_in(8) ? random_.next() : random_.below(300))};
        std::array<std::byte, na::shm::max_inline_bytes> payload{};
        na::shm::FrameHeader header;
        const auto put = [&](std::size_t at, const auto& value) {
            std::memcpy(payload.data() + at, &value, sizeof value);
        };
        using na::shm::FrameKind;
        switch (random_.below(5)) {
            case 0:  // an RDMA write through the ring: address, handle, length, chunk
                header.kind =
                    random_.one_in(4) ? FrameKind::RdmaWriteNext : FrameKind::RdmaWriteFirst;
                put(0, address);
                put(8, target.handle);
                put(12, random_.one_in(2) ? std::uint32_t{chunk.bytes} : bytes);
                put(16, chunk);
                header.length = 20;
                break;
            case 1:  // an RDMA read
                header.kind = FrameKind::RdmaReadRequest;
                put(0, address);
                put(8, target.handle);
                put(12, bytes);
                header.length = 16;
                break;
            case 2:  // a reference to memory of the enemy, or so it says
                header.kind = FrameKind::Reference;
                put(0, bytes);
                put(4, std::uint32_t{random_.one_in(4) ? random_.below(300) : 1});
                put(8, address);
                put(16, bytes);
                put(20, target.handle);
                header.length = 24;
                break;
            case 3:  // a message in the byte ring
                header.kind = random_.one_in(2) ? FrameKind::First : FrameKind::Next;
                put(0, chunk);
                put(4, random_.one_in(2) ? std::uint32_t{chunk.bytes} : bytes);
                header.length = 8;
                break;
            default:
                write_any_cells(line, lap);
                return;
        }
        header.cells = static_cast<std::uint8_t>(na::shm::cells_for(header.length));
        header.flags = static_cast<std::uint8_t>(random_.below(8));
        header.argument = static_cast<std::uint32_t>(random_.next());
        std::uint64_t first = 0;
        std::memcpy(&first, payload.data(), 8);
        for (std::uint32_t i = 1; i < header.cells; ++i) {
            std::uint64_t words[2] = {};
            const std::size_t at = 8 + (i - 1) * std::size_t{na::shm::further_cell_payload};
            std::memcpy(words, payload.data() + at, na::shm::further_cell_payload);
            line.cells[i].payload.store(words[0]);
            line.cells[i].header.store((words[1] & na::shm::payload_of_tagged_word) |
                                       na::shm::encode_tag(FrameKind::Continuation, 1, lap));
        }
        line.cells[0].payload.store(first);
        line.cells[0].header.store(na::shm::encode(header, lap));
    }
    void write_any_cells(na::shm::FrameLine& line, bool lap) {
        for (std::uint32_t i = 0; i < na::shm::line_cells; ++i) {
            line.cells[i].payload.store(plausible());
            line.cells[i].header.store(
                random_.one_in(3) ? na::shm::encode_tag(na::shm::FrameKind::Continuation, 1, lap) |
                                        random_.below(1U << 31)
                                  : any_header(lap, na::shm::line_cells - i));
        }
    }

    const Bout& bout_;
    Random random_;
    const std::vector<SharedMapping>& all_;
    std::vector<SharedMapping> channels_;
    std::vector<SharedMapping> pages_;
    std::vector<SharedMapping> quiet_;
};

/// Everything the library lets it ask for: what was not granted is neither written nor read.
void ask_for_what_was_not_granted(End& end, const Bout& bout, Random& random) {
    const bool reads = end.nic.reads_at(bout.level);
    std::byte* landing = end.arena.take(region_bytes);
    // At the reliable levels the first refusal ends the connection.
    const std::uint32_t attempts = bout.level == unreliable ? 16 : 1;
    for (std::uint32_t i = 0; i < attempts; ++i) {
        const std::uint32_t place = random.below(place_count);
        const Target& target = bout.targets[place];
        const bool read = reads && random.one_in(2);
        std::uint64_t address = target.address;
        std::uint32_t bytes = random.between(1, region_bytes);
        VIP_MEM_HANDLE handle = target.handle;
        const std::uint32_t way = random.below(4);
        bool allowed = (read ? may_read(place) : may_write(place)) && place != Unregistered;
        if (way == 1) {  // beyond the end
            address += region_bytes - bytes + random.between(1, 100);
            allowed = false;
        } else if (way == 2) {  // before the beginning
            address -= random.between(1, 100);
            allowed = false;
        } else if (way == 3) {  // under a handle that is another's or nobody's
            handle = random.one_in(2) ? static_cast<VIP_MEM_HANDLE>(random.next())
                                      : bout.targets[(place + 1) % place_count].handle;
            allowed = false;
            if (place == Unregistered) handle ^= 0x10000;  // one's own generation, off by one
        }
        if (allowed) bytes = std::min(bytes, target.bytes);
        std::memset(landing, 0x55, region_bytes);
        VIP_DESCRIPTOR* descriptor = end.arena.descriptor();
        const Segment part = end.arena.segment(landing, bytes);
        fill_rdma(descriptor, {reinterpret_cast<const void*>(address), handle}, {&part, 1},
                  read ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE);
        ASSERT_VIP(VIP_SUCCESS, end.post_send(descriptor));
        const Completion completion = end.vi.await_send();
        ASSERT_EQ(completion.descriptor, descriptor);
        if (allowed) {
            EXPECT_EQ(completion.errors(), 0U);
        } else if (read) {
            EXPECT_NE(completion.errors(), 0U) << "read place " << place << ", way " << way;
            EXPECT_TRUE(all_bytes_are(landing, region_bytes, std::byte{0x55}));
        } else if (bout.level == reliable_reception) {
            EXPECT_NE(completion.errors(), 0U) << "wrote place " << place << ", way " << way;
        }
    }
}

PEER(enemy) {
    for (;;) {
        auto bout = link.get<Bout>();
        if (bout.last) return;
        Random random(bout.seed + 1);
        ClientEnd client({.level = bout.level, .arena_bytes = enemy_memory_bytes + (256U << 10)});
        End& end = client.end;
        std::byte* memory = end.arena.take(enemy_memory_bytes);
        Address local(client.nic, unique_discriminator());
        for (int i = 0; i < most_to_enemy; ++i) {
            const Segment part = end.arena.segment(memory, longest_to_enemy);
            VIP_DESCRIPTOR* receive = end.arena.descriptor();
            fill(receive, {&part, 1});
            ASSERT_VIP(VIP_SUCCESS, end.post_recv(receive));
        }
        ASSERT_VIP(VIP_SUCCESS, request_until_matched(end.vi, local, bout.address));
        static_cast<void>(link.get<std::uint8_t>());  // the victim is ready, too

        // What was granted works, and brings the victim's arena into reach.
        for (const std::uint32_t place : {Granted, GrantedKmem}) {
            const Target& target = bout.targets[place];
            VIP_DESCRIPTOR* write = end.arena.rdma_write(
                memory, 100, {reinterpret_cast<const void*>(target.address), target.handle});
            ASSERT_VIP(VIP_SUCCESS, end.post_send(write));
            ASSERT_VIP(VIP_SUCCESS, end.vi.await_send().code);
        }
        link.put(Remote{memory, end.arena.handle()});
        if (bout.attack == Attack::Requests) {
            ask_for_what_was_not_granted(end, bout, random);
        } else {
            const Reach reach;
            EXPECT_GE(reach.read_only, 2) << "its own table and the victim's";
            EXPECT_FALSE(reach.named("channel").empty());
            EXPECT_GE(reach.named("doorbell").size(), 2U);
            const char* path = std::getenv("VIA_SHM_PATH");
            const bool maps = path == nullptr || *path == 'a' || *path == 'k';
            EXPECT_EQ(reach.named("kmem").empty(), !maps);
            if (testing::Test::HasFailure()) return;
            Enemy scribbler(bout, reach);
            for (int step = 0; step < 1500; ++step) {
                // Honest frames in between keep the victim reading.
                if (step % 16 == 0) {
                    VIP_DESCRIPTOR* done = nullptr;
                    static_cast<void>(VipSendDone(end.vi, &done));
                    static_cast<void>(VipRecvDone(end.vi, &done));
                }
                if (step % 64 == 0 && step < 1024) {
                    static_cast<void>(
                        end.post_send(end.arena.message(memory, random.below(longest_from_enemy))));
                    sched_yield();
                }
                scribbler.step();
            }
        }
        link.put<std::uint8_t>(1);
        static_cast<void>(link.get<std::uint8_t>());
        if (testing::Test::HasFailure()) return;
    }
}

}  // namespace
}  // namespace via::test
