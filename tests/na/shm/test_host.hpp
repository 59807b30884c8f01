// SPDX-License-Identifier: BSD-3-Clause
// A host for shm devices in one process: a kernel agent without socket and processes without
// process. Tables, arenas, doorbells, channels and NIC agents are the real ones; the test drives
// every step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/counters.hpp"
#include "base/event_loop.hpp"
#include "ka/client.hpp"
#include "ka/rmmt_table.hpp"
#include "na/doorbell.hpp"
#include "na/shm/shm_nic_agent.hpp"

namespace via::test {

class TestHost;

class TestClient final : public ka::AgentClient {
  public:
    TestClient(TestHost& host, std::uint64_t number, const na::Doorbell& doorbell);

    // What tests set and see.
    bool refuse_arenas = false;
    bool refuse_tables = false;
    int arenas_asked = 0;
    int tables_asked = 0;
    std::vector<std::uint64_t> ended;  ///< connections it said to have ended
    base::UniqueFd pidfd;              ///< of the process that it stands for; this one by default
    std::int32_t pid;
    /// For a peer that is played by the test: offers whatever the other side offers, changed so.
    std::function<void(ka::DeviceParameters&)> tweak;
    bool mirror = false;
    /// As after a change of agent: a new table with the same regions.
    void renew_table();

    [[nodiscard]] ka::RmmtView rmmt() const noexcept override { return table_->view(); }
    [[nodiscard]] std::uint32_t rmmt_epoch() const noexcept override { return epoch_; }
    [[nodiscard]] base::Result<ka::MemoryHandle> register_memory(const void* address,
                                                                 std::uint64_t bytes,
                                                                 ka::ProtectionTag tag,
                                                                 std::uint32_t rights) override;
    [[nodiscard]] base::Result<void> deregister_memory(ka::MemoryHandle handle) override;
    [[nodiscard]] base::Result<void> change_memory(ka::MemoryHandle handle, ka::ProtectionTag tag,
                                                   std::uint32_t rights) override;
    [[nodiscard]] base::Result<ka::KmemBlock> allocate_kmem(std::uint64_t bytes,
                                                            ka::ProtectionTag tag) override;
    [[nodiscard]] base::Result<void> free_kmem(const void* address) override;
    void abandon_kmem(const void* address) noexcept override {
        static_cast<void>(free_kmem(address));
    }
    [[nodiscard]] base::Result<std::uint32_t> create_vi() override { return std::uint32_t{1}; }
    void destroy_vi(std::uint32_t) noexcept override {}
    void disconnected(std::uint64_t connection) noexcept override;
    [[nodiscard]] base::Result<ka::IncomingRequest> connect_wait(const ka::NetAddress&,
                                                                 base::Deadline, const void*,
                                                                 std::uint32_t) override;
    void cancel_waits(const void*) noexcept override {}
    [[nodiscard]] base::Result<ka::Established> connect_accept(std::uint64_t,
                                                               const ka::ConnectOffer&,
                                                               base::Deadline) override;
    [[nodiscard]] base::Result<void> connect_reject(std::uint64_t) override;
    [[nodiscard]] base::Result<ka::Established> connect_request(const ka::ConnectOffer&,
                                                                base::Deadline) override;
    [[nodiscard]] base::Result<std::uint64_t> peer_request(const ka::ConnectOffer& offer,
                                                           base::Deadline deadline) override;
    [[nodiscard]] std::optional<base::Result<ka::Established>> peer_poll(
        std::uint64_t request) override;
    [[nodiscard]] base::Result<ka::Established> peer_wait(std::uint64_t request) override;
    void peer_cancel(std::uint64_t request) noexcept override;
    [[nodiscard]] base::Result<ka::ArenaGrant> peer_arena(std::uint64_t connection,
                                                          std::uint32_t arena) override;
    [[nodiscard]] base::Result<RmmtGrant> peer_rmmt(std::uint64_t connection) override;
    [[nodiscard]] base::Result<ka::AgentStatus> status() override;
    [[nodiscard]] base::Result<base::UniqueFd> counters_of(std::int32_t) override;
    [[nodiscard]] base::Result<void> stop_agent() override;
    [[nodiscard]] int socket() const noexcept override { return -1; }
    [[nodiscard]] bool attached() const noexcept override { return true; }
    bool reattach_if_running() noexcept override { return true; }

  private:
    friend class TestHost;
    struct Arena {
        base::UniqueFd file;
        base::Mapping mapping;
    };
    [[nodiscard]] ka::PeerGrant grant() const;

    TestHost& host_;
    std::uint64_t number_;
    int doorbell_memory_;
    int doorbell_event_;
    std::unique_ptr<ka::RmmtTable> table_;
    std::unique_ptr<ka::RmmtTable> old_table_;
    std::uint32_t epoch_ = 1;
    std::map<ka::MemoryHandle, ka::Region> regions_;
    std::map<std::uint32_t, Arena> arenas_;
    std::uint32_t next_arena_ = 1;
};

/// Brings peer requests together, the first to ask being the requester of the channel.
class TestHost {
  public:
    TestHost() = default;
    TestHost(const TestHost&) = delete;
    TestHost& operator=(const TestHost&) = delete;
    [[nodiscard]] std::uint64_t new_process() noexcept { return ++processes_; }

  private:
    friend class TestClient;
    struct Request {
        TestClient* client = nullptr;
        ka::ConnectOffer offer;
        std::optional<ka::Established> outcome;
    };
    struct Connection {
        TestClient* ends[2] = {nullptr, nullptr};
    };
    void match(std::uint64_t newest);
    [[nodiscard]] TestClient* other_end(std::uint64_t connection, const TestClient* one);

    std::mutex mutex_;
    std::uint64_t processes_ = 0;
    std::uint64_t next_request_ = 1;
    std::uint64_t next_connection_ = 1;
    std::map<std::uint64_t, Request> requests_;
    std::map<std::uint64_t, Connection> connections_;
};

/// Everything of a process that a VI needs.
struct TestProcess {
    explicit TestProcess(TestHost& host);
    ~TestProcess();
    na::Doorbell doorbell;
    TestClient client;
    std::unique_ptr<base::EventLoop> loop;
    std::unique_ptr<na::shm::ShmNicAgent> nic;
};

/// Registered memory, from the heap or from kmem.
class TestMemory {
  public:
    enum class Kind { Heap, Kmem };
    TestMemory(TestProcess& process, std::size_t bytes, Kind kind = Kind::Heap,
               std::uint32_t rights = ka::right_rdma_write | ka::right_rdma_read,
               ka::ProtectionTag tag = 1);
    TestMemory(const TestMemory&) = delete;
    TestMemory& operator=(const TestMemory&) = delete;
    ~TestMemory();
    [[nodiscard]] std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] std::span<std::byte> span() const noexcept { return {data_, bytes_}; }
    [[nodiscard]] ka::MemoryHandle handle() const noexcept { return handle_; }
    [[nodiscard]] na::PhysicalDescriptor pd(std::size_t offset, std::size_t bytes) const noexcept {
        return {reinterpret_cast<std::uint64_t>(data_) + offset, static_cast<std::uint32_t>(bytes),
                handle_};
    }
    [[nodiscard]] na::PhysicalDescriptor pd() const noexcept { return pd(0, bytes_); }
    void deregister();

  private:
    TestProcess& process_;
    Kind kind_;
    std::size_t bytes_;
    std::vector<std::byte> heap_;
    std::byte* data_ = nullptr;
    ka::MemoryHandle handle_ = 0;
    bool registered_ = true;
};

struct SendOptions {
    std::optional<std::uint32_t> immediate;
    bool fence = false;
};

struct Done {
    std::uint64_t cookie = 0;
    std::uint32_t status = 0;
    std::uint32_t length = 0;
    std::uint32_t immediate = 0;
    [[nodiscard]] std::uint32_t errors() const noexcept { return status & na::status_error_mask; }
    [[nodiscard]] bool has_immediate() const noexcept {
        return (status & na::status_immediate) != 0;
    }
};

/// A VI as the NIC agent sees one: queues, an endpoint, and an owner that polls when told. All
/// calls may come from any thread.
class TestVi final : public na::EndpointOwner {
  public:
    TestVi(TestProcess& process, std::uint32_t reliability, na::EndpointGroups groups = {},
           std::uint32_t small_ring = 64, std::uint32_t low_water = 16);
    TestVi(const TestVi&) = delete;
    TestVi& operator=(const TestVi&) = delete;
    ~TestVi() override;

    std::uint64_t post_send(const std::vector<na::PhysicalDescriptor>& segments,
                            const SendOptions& options = {});
    std::uint64_t post_rdma(na::Operation operation, const na::PhysicalDescriptor& remote,
                            const std::vector<na::PhysicalDescriptor>& segments,
                            const SendOptions& options = {});
    std::uint64_t post_receive(const std::vector<na::PhysicalDescriptor>& segments);
    bool poll();
    bool progress(bool nudge_peer = false) override;
    [[nodiscard]] std::optional<Done> send_done();
    [[nodiscard]] std::optional<Done> receive_done();
    /// EndpointEvent bits since the last call.
    std::uint32_t take_events();
    void flush();
    void disconnect();

    TestProcess& process;
    na::QueuePair queues;
    base::ViCounters counters;
    std::unique_ptr<na::Endpoint> endpoint;
    std::atomic<std::uint64_t> progressed{0};
    std::mutex mutex;

  private:
    std::uint64_t post(na::Operation operation, const na::PhysicalDescriptor* remote,
                       const std::vector<na::PhysicalDescriptor>& segments,
                       const SendOptions& options);
    [[nodiscard]] static std::optional<Done> done(na::WorkQueue& queue);
};

[[nodiscard]] ka::NetAddress address_named(const char* discriminator);

/// Connects two VIs; `one` is the requester.
[[nodiscard]] base::Result<void> connect(TestVi& one, TestVi& other);
/// Polls both until both have nothing left to do. False: that never happens.
bool drive(TestVi& one, TestVi& other, int most = 100000);

// What frames say that are more than a number: the format as a peer of this version writes it,
// declared here once more so that a change of it does not go unseen.
struct ChunkNotice {  ///< First, Next
    na::shm::RingChunk chunk;
    std::uint32_t total = 0;
};
struct ReferenceNotice {  ///< Reference to one segment
    std::uint32_t total = 0;
    std::uint32_t segments = 0;
    na::PhysicalDescriptor segment;
};
struct RdmaChunkNotice {  ///< RdmaWriteFirst, RdmaWriteNext
    std::uint32_t address[2] = {};
    std::uint32_t handle = 0;
    std::uint32_t total = 0;
    na::shm::RingChunk chunk;
    void aim_at(const void* target) noexcept {
        const auto number = reinterpret_cast<std::uint64_t>(target);
        address[0] = static_cast<std::uint32_t>(number);
        address[1] = static_cast<std::uint32_t>(number >> 32);
    }
};
struct ReadRequestNotice {
    std::uint64_t address = 0;
    std::uint32_t handle = 0;
    std::uint32_t length = 0;
};
struct ReadDataNotice {
    na::shm::RingChunk chunk;
    std::uint32_t failure = 0;
};
static_assert(sizeof(ChunkNotice) == 8 && sizeof(ReferenceNotice) == 24 &&
              sizeof(RdmaChunkNotice) == 20 && sizeof(ReadRequestNotice) == 16 &&
              sizeof(ReadDataNotice) == 8);

/// A peer that the test plays itself, writing into the channel what it likes.
class RawPeer {
  public:
    RawPeer(TestHost& host, TestVi& victim);
    ~RawPeer();
    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;

    /// Connects the victim; it is the requester unless `raw_first`.
    [[nodiscard]] base::Result<void> connect(bool raw_first = false);
    /// What the victim reads, and what it writes.
    [[nodiscard]] const na::shm::Direction& towards_victim() const noexcept { return towards_; }
    [[nodiscard]] const na::shm::Direction& from_victim() const noexcept { return from_; }
    [[nodiscard]] std::span<std::byte> channel() const noexcept {
        return {channel_.data(), channel_.size()};
    }
    /// Sends one frame as an honest writer would, whatever its content.
    bool send(na::shm::FrameKind kind, std::span<const std::byte> payload, std::uint8_t flags = 0,
              std::uint32_t argument = 0);
    /// The same with payload of 32-bit words.
    bool send_words(na::shm::FrameKind kind, std::initializer_list<std::uint32_t> words,
                    std::uint8_t flags = 0, std::uint32_t argument = 0);
    /// The same with payload that is one of the notices above.
    template <class Notice>
    bool send_notice(na::shm::FrameKind kind, const Notice& notice, std::uint8_t flags = 0,
                     std::uint32_t argument = 0) {
        return send(kind, std::as_bytes(std::span(&notice, 1)), flags, argument);
    }
    /// Puts bytes where a frame can name them; nothing, if the ring is full.
    std::optional<na::shm::RingChunk> put_in_ring(std::span<const std::byte> bytes);

    na::Doorbell doorbell;
    TestClient client;
    std::optional<na::shm::ChannelWriter> writer;
    std::optional<na::shm::ChannelReader> reader;

  private:
    TestVi& victim_;
    base::Mapping channel_;
    na::shm::Direction towards_;
    na::shm::Direction from_;
};

}  // namespace via::test
