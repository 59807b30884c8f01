// SPDX-License-Identifier: BSD-3-Clause
// A victim between an honest partner and two enemies. One enemy connects as everybody does, then
// writes garbage into every shared page it can reach and asks for memory it was not granted; the
// other floods the kernel agent's socket. The victim must not crash, nothing but what was granted
// may change or be read, the partner's messages stay right, and the agent serves the next one.
//
// What the enemy could do with ptrace or process_vm_writev is outside the model: the system allows
// or forbids that, not this library.
//
//   HOSTILE_SEED   another sequence of attacks; --gtest_random_seed does the same
//   HOSTILE_BOUTS  how many connections the enemy makes (default below)
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "base/message_socket.hpp"
#include "ka/client.hpp"
#include "ka/protocol.hpp"
#include "na/seeded.hpp"
#include "na/shm/channel.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

constexpr std::uint32_t default_bouts = 300;
constexpr std::uint32_t region_bytes = 16U << 10;
constexpr std::uint32_t enemy_memory_bytes = 1U << 20;
constexpr std::uint32_t longest_to_enemy = 200000;
constexpr int most_to_enemy = 100;
constexpr std::uint32_t longest_from_enemy = 300;

// ---- What the victim grants, and what it does not ----------------------------------------------

struct Target {
    std::uint64_t address = 0;
    VIP_MEM_HANDLE handle = 0;
    std::uint32_t bytes = 0;
};

enum Place : std::uint32_t {
    Granted,       ///< RDMA write and read, the enemy's tag
    GrantedKmem,   ///< the same in memory that the enemy maps
    ReadOnly,      ///< no RDMA write
    Closed,        ///< no RDMA at all
    OtherTag,      ///< everything, for somebody else
    OtherTagKmem,  ///< the same in kmem
    Unregistered,
    place_count
};
[[nodiscard]] constexpr bool may_write(std::uint32_t place) {
    return place == Granted || place == GrantedKmem;
}
[[nodiscard]] constexpr bool may_read(std::uint32_t place) {
    return may_write(place) || place == ReadOnly;
}

enum class Attack : std::uint32_t {
    Requests,   ///< only what the library lets it ask for
    Positions,  ///< control words, doorbells, counters, data: the frames stay honest
    Frames,     ///< lies in frames
    Anything,
    Last = Anything
};

struct Bout {
    std::uint64_t seed = 0;
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    Attack attack = Attack::Requests;
    bool last = false;
    std::array<Target, place_count> targets{};
    Address address;
};

VIP_MEM_ATTRIBUTES rights(VIP_PROTECTION_HANDLE tag, bool write, bool read) {
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = tag;
    attributes.EnableRdmaWrite = write ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead = read ? VIP_TRUE : VIP_FALSE;
    return attributes;
}

/// The victim's memory: regions between strips that belong to nobody, every byte of it known.
class Fortress {
  public:
    Fortress(Nic& nic, VIP_PROTECTION_HANDLE enemy, VIP_PROTECTION_HANDLE other)
        : nic_(nic), memory_(place_count * stride + strip) {
        fill_pattern(memory_, wall_stream);
        for (std::uint32_t place = 0; place < place_count; ++place) {
            Target& target = targets_[place];
            target.bytes = region_bytes;
            const bool foreign = place == OtherTag || place == OtherTagKmem;
            VIP_MEM_ATTRIBUTES attributes = rights(
                foreign ? other : enemy, place != ReadOnly && place != Closed, place != Closed);
            if (place == GrantedKmem || place == OtherTagKmem) {
                VIP_PVOID address = nullptr;
                must(VipxAllocMem(nic, region_bytes, &attributes, &address, &target.handle));
                target.address = reinterpret_cast<std::uint64_t>(address);
                fill_pattern(bytes_of(place), place);
                continue;
            }
            std::byte* start = memory_.data() + strip + place * stride;
            target.address = reinterpret_cast<std::uint64_t>(start);
            if (place != Unregistered)
                must(VipRegisterMem(nic, start, region_bytes, &attributes, &target.handle));
        }
        // A handle that is good, for an address that is not its own.
        targets_[Unregistered].handle = targets_[Granted].handle;
    }
    Fortress(const Fortress&) = delete;
    Fortress& operator=(const Fortress&) = delete;
    ~Fortress() {
        for (std::uint32_t place = 0; place < place_count; ++place) {
            auto* address = reinterpret_cast<void*>(targets_[place].address);
            if (place == GrantedKmem || place == OtherTagKmem) {
                EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic_, address, targets_[place].handle));
            } else if (place != Unregistered) {
                EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic_, address, targets_[place].handle));
            }
        }
    }

    [[nodiscard]] const std::array<Target, place_count>& targets() const { return targets_; }
    [[nodiscard]] std::span<std::byte> bytes_of(std::uint32_t place) const {
        return {reinterpret_cast<std::byte*>(targets_[place].address), targets_[place].bytes};
    }

    void expect_unharmed() const {
        EXPECT_EQ(matching_bytes(bytes_of(OtherTagKmem), OtherTagKmem), region_bytes);
        const std::size_t first = strip + Granted * stride;
        const std::span<const std::byte> all(memory_);
        EXPECT_EQ(matching_bytes(all.first(first), wall_stream), first);
        const std::size_t behind = first + region_bytes;
        EXPECT_EQ(matching_bytes(all.subspan(behind), wall_stream, behind), all.size() - behind);
    }

  private:
    static constexpr std::size_t strip = 1000;
    static constexpr std::size_t stride = region_bytes + strip;
    static constexpr std::uint64_t wall_stream = 77;
    static void must(VIP_RETURN code) {
        if (code != VIP_SUCCESS) throw std::runtime_error(VipxErrorText());
    }
    Nic& nic_;
    std::vector<std::byte> memory_;
    std::array<Target, place_count> targets_;
};

// ---- The honest partner ------------------------------------------------------------------------

constexpr std::uint32_t honest_sizes[] = {1, 8, 56, 100, 1000, 4096, 5000, 20000, 65536};
constexpr std::uint32_t longest_honest = 65536;

[[nodiscard]] std::uint32_t honest_bytes(std::uint32_t number) {
    return honest_sizes[number % std::size(honest_sizes)];
}

/// One end of the honest conversation: everything it says can be foretold.
struct HonestEnd {
    explicit HonestEnd(End& own_end)
        : end(own_end),
          source(end.arena.take(longest_honest)),
          target(end.arena.take(longest_honest + 64)),
          window(end.arena.take(longest_honest + 64)),
          receive(end.arena.descriptor()),
          send(end.arena.descriptor()),
          write(end.arena.descriptor()) {}
    void post_receive(std::uint32_t number) {
        std::memset(target, 0x33, longest_honest + 64);
        const Segment part = end.arena.segment(target, honest_bytes(number));
        fill(receive, {&part, 1});
        ASSERT_VIP(VIP_SUCCESS, end.post_recv(receive));
    }
    /// An RDMA write into the other's window and a message behind it.
    void speak(std::uint32_t number, std::uint32_t stream, const Remote& remote) {
        const std::uint32_t bytes = honest_bytes(number);
        fill_pattern(source, bytes, stream);
        const Segment part = end.arena.segment(source, bytes);
        fill_rdma(write, remote, {&part, 1}, VIP_CONTROL_OP_RDMAWRITE);
        ASSERT_VIP(VIP_SUCCESS, end.post_send(write));
        fill(send, {&part, 1}, VIP_CONTROL_IMMEDIATE);
        send->CS.ImmediateData = number;
        ASSERT_VIP(VIP_SUCCESS, end.post_send(send));
    }
    void expect_heard(std::uint32_t number, std::uint32_t stream, const Completion& completion) {
        const std::uint32_t bytes = honest_bytes(number);
        ASSERT_VIP(VIP_SUCCESS, completion.code);
        ASSERT_EQ(completion.descriptor, receive);
        EXPECT_EQ(completion.length(), bytes);
        EXPECT_EQ(receive->CS.ImmediateData, number);
        EXPECT_TRUE(has_pattern(target, bytes, stream));
        EXPECT_TRUE(has_pattern(window, bytes, stream));
        EXPECT_TRUE(all_bytes_are(target + bytes, 64, std::byte{0x33}));
    }

    End& end;
    std::byte* source;
    std::byte* target;
    std::byte* window;
    VIP_DESCRIPTOR* receive;
    VIP_DESCRIPTOR* send;
    VIP_DESCRIPTOR* write;
};

constexpr PairOptions honest_pair{.level = reliable_delivery};

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

// ---- The enemy ----------------------------------------------------------------------------------

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

// ---- Whoever floods the agent -------------------------------------------------------------------

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

// ---- The victim ---------------------------------------------------------------------------------

/// The victim's end of a connection to the enemy: it goes on using it as long as it can.
class ExposedEnd {
  public:
    ExposedEnd(Nic& nic, VIP_PROTECTION_HANDLE tag, const Bout& bout, VIP_CQ_HANDLE cq)
        : random_(bout.seed + 2),
          arena_(nic, {.bytes = 4U << 20, .tag = tag, .rdma_write = false, .rdma_read = false}),
          vi_(nic, {.level = bout.level, .tag = tag, .recv_cq = cq}),
          cq_(cq),
          reads_(nic.reads_at(bout.level)) {
        outgoing_ = arena_.take(longest_to_enemy);
        for (int i = 0; i < 32; ++i) {
            Receive receive;
            receive.capacity = random_.between(longest_from_enemy, 40000);
            receive.data = arena_.take(receive.capacity + 200, 1);
            std::memset(receive.data, 0x44, receive.capacity + 200);
            receive.descriptor = arena_.descriptor();
            const Segment part = arena_.segment(receive.data + 100, receive.capacity);
            fill(receive.descriptor, {&part, 1});
            EXPECT_VIP(VIP_SUCCESS, VipPostRecv(vi_, receive.descriptor, arena_.handle()));
            receives_.push_back(receive);
        }
        for (int i = 0; i < 16; ++i)
            free_sends_.push_back(arena_.descriptor());
    }

    [[nodiscard]] Vi& vi() { return vi_; }
    void knows(const Remote& remote) { remote_ = remote; }

    void tend() {
        if (cq_ != nullptr) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            if (VipCQDone(cq_, &vi, &receive) == VIP_SUCCESS) take_receive();
        } else {
            take_receive();
        }
        take_send();
        if (!broken_ && sent_ < most_to_enemy && !free_sends_.empty() && random_.one_in(4))
            send_something();
    }

    /// The enemy has had his turn: every descriptor is accounted for.
    void conclude() {
        const VIP_VI_STATE state = vi_.state();
        EXPECT_TRUE(state == VIP_STATE_CONNECTED || state == VIP_STATE_ERROR);
        EXPECT_VIP(VIP_SUCCESS, VipDisconnect(vi_));
        while (take_send()) {
        }
        while (take_receive()) {
        }
        EXPECT_TRUE(sends_.empty());
        EXPECT_EQ(received_, receives_.size());
        for (const Receive& receive : receives_) {
            EXPECT_TRUE(all_bytes_are(receive.data, 100, std::byte{0x44}));
            EXPECT_TRUE(all_bytes_are(receive.data + 100 + receive.capacity, 100, std::byte{0x44}));
        }
        if (cq_ != nullptr) {  // its entries belong to descriptors that have been taken
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            while (VipCQDone(cq_, &vi, &receive) == VIP_SUCCESS) {
            }
        }
    }

  private:
    struct Receive {
        std::byte* data = nullptr;
        std::uint32_t capacity = 0;
        VIP_DESCRIPTOR* descriptor = nullptr;
    };

    bool take_receive() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipRecvDone(vi_, &descriptor);
        if (descriptor == nullptr) return false;
        EXPECT_TRUE(code == VIP_SUCCESS || code == VIP_DESCRIPTOR_ERROR);
        if (received_ >= receives_.size()) {
            ADD_FAILURE() << "more receives than were posted";
            return false;
        }
        const Receive& receive = receives_[received_++];
        EXPECT_EQ(descriptor, receive.descriptor);
        // What an RDMA write with immediate data claims to have written is not in this buffer.
        if ((descriptor->CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RECEIVE) {
            EXPECT_LE(descriptor->CS.Length, receive.capacity);
        }
        if (code != VIP_SUCCESS) broken_ = true;
        return true;
    }
    bool take_send() {
        VIP_DESCRIPTOR* descriptor = nullptr;
        const VIP_RETURN code = VipSendDone(vi_, &descriptor);
        if (descriptor == nullptr) return false;
        EXPECT_TRUE(code == VIP_SUCCESS || code == VIP_DESCRIPTOR_ERROR);
        if (sends_.empty()) {
            ADD_FAILURE() << "more sends than were posted";
            return false;
        }
        EXPECT_EQ(descriptor, sends_.front());
        sends_.pop_front();
        free_sends_.push_back(descriptor);
        if (code != VIP_SUCCESS) broken_ = true;
        return true;
    }
    void send_something() {
        VIP_DESCRIPTOR* descriptor = free_sends_.back();
        free_sends_.pop_back();
        const std::uint32_t bytes = random_.one_in(2)   ? random_.below(60)
                                    : random_.one_in(2) ? random_.below(5000)
                                                        : random_.below(longest_to_enemy);
        const Segment part = arena_.segment(outgoing_, bytes);
        const std::uint32_t way = random_.below(4);
        if (way < 2 || bytes > 1000)
            fill(descriptor, {&part, 1});
        else
            fill_rdma(descriptor, remote_, {&part, 1},
                      way == 2 && reads_ ? VIP_CONTROL_OP_RDMAREAD : VIP_CONTROL_OP_RDMAWRITE);
        EXPECT_VIP(VIP_SUCCESS, VipPostSend(vi_, descriptor, arena_.handle()));
        sends_.push_back(descriptor);
        ++sent_;
    }

    Random random_;
    Arena arena_;
    Vi vi_;
    VIP_CQ_HANDLE cq_;
    bool reads_;
    bool broken_ = false;
    Remote remote_;
    std::byte* outgoing_ = nullptr;
    std::vector<Receive> receives_;
    std::size_t received_ = 0;
    int sent_ = 0;
    std::deque<VIP_DESCRIPTOR*> sends_;
    std::vector<VIP_DESCRIPTOR*> free_sends_;
};

/// Waits for a byte from another process while this one is busy.
class Listener {
  public:
    explicit Listener(const Link& link)
        : thread_([this, &link] {
              try {
                  static_cast<void>(link.get<std::uint8_t>());
              } catch (const std::exception& error) {
                  ADD_FAILURE() << error.what();
              }
              heard_.store(true);
          }) {}
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener() { thread_.join(); }
    [[nodiscard]] bool heard() const { return heard_.load(); }

  private:
    std::atomic<bool> heard_{false};
    std::thread thread_;
};

pid_t agent_pid() {
    auto client =
        ka::AgentClient::attach_if_running({}, base::Deadline::after_milliseconds(patience_ms));
    if (!client) return 0;
    auto status = client.value()->status();
    return status ? status.value().pid : 0;
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* given = std::getenv(variable);
    return given != nullptr && *given != '\0' ? std::strtoull(given, nullptr, 0) : otherwise;
}

class HostileNeighbour : public testing::Test {
  protected:
    /// One message each way with the honest partner, while the enemy rages.
    void talk(ExposedEnd* exposed) {
        const std::uint32_t number = spoken_++;
        honest_->post_receive(number);
        partner_->link.put<std::uint8_t>(1);
        honest_->speak(number, 2 * number, partner_window_);
        Completion heard;
        int sent = 0;
        ASSERT_TRUE(eventually([&] {
            if (exposed != nullptr) exposed->tend();
            VIP_DESCRIPTOR* done = nullptr;
            if (sent < 2 && VipSendDone(server_->end.vi, &done) == VIP_SUCCESS) ++sent;
            if (heard.descriptor == nullptr)
                heard.code = VipRecvDone(server_->end.vi, &heard.descriptor);
            return sent == 2 && heard.descriptor != nullptr;
        })) << "message "
            << number << ", " << sent << " sent";
        honest_->expect_heard(number, 2 * number + 1, heard);
    }

    std::unique_ptr<PeerProcess> partner_;
    std::unique_ptr<ServerEnd> server_;
    std::unique_ptr<HonestEnd> honest_;
    Remote partner_window_;
    std::uint32_t spoken_ = 0;
};

TEST_F(HostileNeighbour, HarmsNobody) {
    const auto chosen = static_cast<std::uint64_t>(testing::GTEST_FLAG(random_seed));
    const std::uint64_t seed = number_from("HOSTILE_SEED", chosen != 0 ? chosen : 1);
    const auto bouts = static_cast<std::uint32_t>(
        number_from("HOSTILE_BOUTS", std::max(12U, repeated(default_bouts))));
    std::printf("HOSTILE_SEED=%llu HOSTILE_BOUTS=%u\n", static_cast<unsigned long long>(seed),
                bouts);
    std::fflush(stdout);
    setenv("VIA_LOG", "silent", 0);

    partner_ = std::make_unique<PeerProcess>("honest_partner");
    server_ = std::make_unique<ServerEnd>(honest_pair);
    honest_ = std::make_unique<HonestEnd>(server_->end);
    server_->accept(partner_->link);
    partner_window_ = partner_->link.get<Remote>();
    partner_->link.put(Remote{honest_->window, server_->end.arena.handle()});
    Nic& nic = server_->nic;
    talk(nullptr);

    const pid_t agent = agent_pid();
    ASSERT_NE(agent, 0);
    const VIP_PROTECTION_HANDLE enemy_tag = make_tag(nic);
    const VIP_PROTECTION_HANDLE other_tag = make_tag(nic);
    const Fortress fortress(nic, enemy_tag, other_tag);
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_VIP(VIP_SUCCESS, VipCreateCQ(nic, 64, &cq));
    PeerProcess enemy("enemy");
    PeerProcess flooder("flooder");

    for (std::uint32_t i = 0; i < bouts && !HasFailure(); ++i) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", bout " + std::to_string(i));
        Random random(seed * 1000 + i);
        static constexpr VIP_RELIABILITY_LEVEL levels[] = {unreliable, reliable_delivery,
                                                           reliable_reception};
        Bout bout;
        bout.seed = random.next();
        bout.level = levels[i % 3];
        bout.attack =
            static_cast<Attack>(random.below(static_cast<std::uint32_t>(Attack::Last) + 1));
        bout.targets = fortress.targets();
        bout.address = Address(nic, unique_discriminator());
        ExposedEnd exposed(nic, enemy_tag, bout, random.one_in(2) ? cq : nullptr);
        flooder.link.put<std::uint32_t>(200);
        flooder.link.put(random.next());

        enemy.link.put(bout);
        Address remote;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        ASSERT_VIP(VIP_SUCCESS, VipConnectWait(nic, bout.address.get(), patience_ms, remote.get(),
                                               &attributes, &connection));
        ASSERT_VIP(VIP_SUCCESS, VipConnectAccept(connection, exposed.vi()));
        enemy.link.put<std::uint8_t>(1);
        exposed.knows(enemy.link.get<Remote>());
        // As long as the enemy goes on, and a few more.
        const Listener listener(enemy.link);
        for (int after = 0; after < 4 && !HasFatalFailure(); after += listener.heard() ? 1 : 0)
            talk(&exposed);
        exposed.conclude();
        fortress.expect_unharmed();
        enemy.link.put<std::uint8_t>(1);
        static_cast<void>(flooder.link.get<std::uint8_t>());
    }
    Bout end_of_it;
    end_of_it.last = true;
    enemy.link.put(end_of_it);
    EXPECT_EQ(enemy.wait(), 0) << "the library failed in the enemy's own process";
    flooder.link.put<std::uint32_t>(0);
    EXPECT_EQ(flooder.wait(), 0);

    // The partner and the agent have noticed nothing, and somebody new is served.
    talk(nullptr);
    partner_->link.put<std::uint8_t>(0);
    EXPECT_EQ(partner_->wait(), 0);
    EXPECT_EQ(agent_pid(), agent) << "the agent has ended in between";
    PeerProcess newcomer("newcomer");
    {
        ServerEnd server(honest_pair);
        HonestEnd own(server.end);
        own.post_receive(5);
        server.accept(newcomer.link);
        const auto window = newcomer.link.get<Remote>();
        newcomer.link.put(Remote{own.window, server.end.arena.handle()});
        own.speak(5, 2, window);
        own.expect_heard(5, 1, server.end.vi.await_recv());
        newcomer.link.meet();
        EXPECT_EQ(newcomer.wait(), 0);
    }
    fortress.expect_unharmed();
    EXPECT_VIP(VIP_SUCCESS, VipDestroyCQ(cq));
}

}  // namespace
}  // namespace via::test
