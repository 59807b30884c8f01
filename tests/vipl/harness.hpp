// SPDX-License-Identifier: BSD-3-Clause
// What the conformance tests share: RAII over the C API, two connected ends, a second process,
// and waits that always end. Everything here talks to the library through vipl.h alone.
#pragma once

#include <gtest/gtest.h>
#include <vipl.h>
#include <vipx.h>

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

// GoogleTest prints codes by name; found by argument-dependent lookup, hence global.
inline void PrintTo(VIP_RETURN code, std::ostream* out) {
    *out << VipxReturnName(code);
}
void PrintTo(VIP_VI_STATE state, std::ostream* out);
void PrintTo(VIP_ERROR_CODE code, std::ostream* out);

namespace via::test {

using Clock = std::chrono::steady_clock;

/// How long anything may take before a test gives up. No passing test waits this long.
inline constexpr VIP_ULONG patience_ms = 20000;
inline constexpr std::chrono::milliseconds patience{patience_ms};
/// The other way to write "for ever" (the Windows headers' value).
inline constexpr VIP_ULONG infinite_32 = 0xFFFFFFFFUL;

/// The device under test: VIA_TEST_DEVICE, shm0 unless told.
[[nodiscard]] const char* device();
/// Is it a simulated NIC? All of its hosts are in one process.
[[nodiscard]] bool simulated();
#define NEEDS_TWO_PROCESSES()                                  \
    if (::via::test::simulated())                              \
    GTEST_SKIP() << "the hosts of a simulated NIC are in one " \
                    "process"
/// Message memory of the tests: VIA_TEST_MEMORY=heap|kmem, heap unless told.
[[nodiscard]] bool use_kmem();
/// Fewer under a sanitizer.
[[nodiscard]] unsigned rounds(unsigned wanted);
/// Whether to use up tens of thousands of objects at the kernel agent. VIA_TEST_LIMITS=0: no, since
/// a limit does not depend on how data moves; nor under a sanitizer.
[[nodiscard]] bool try_limits();

/// Calls `condition` until it holds; false when patience has run out.
template <typename Condition>
[[nodiscard]] bool eventually(Condition&& condition) {
    const auto deadline = Clock::now() + patience;
    for (unsigned turn = 0;; ++turn) {
        if (condition()) return true;
        if (turn % 64 == 63) {
            if (Clock::now() > deadline) return false;
            sched_yield();
        }
    }
}

[[nodiscard]] testing::AssertionResult vip_returned(const char* expected_text,
                                                    const char* call_text, VIP_RETURN expected,
                                                    VIP_RETURN actual);
#define EXPECT_VIP(expected, call) EXPECT_PRED_FORMAT2(::via::test::vip_returned, expected, call)
#define ASSERT_VIP(expected, call) ASSERT_PRED_FORMAT2(::via::test::vip_returned, expected, call)

// ---- Reliability levels ---------------------------------------------------------------------

inline constexpr VIP_RELIABILITY_LEVEL unreliable = VIP_SERVICE_UNRELIABLE;
inline constexpr VIP_RELIABILITY_LEVEL reliable_delivery = VIP_SERVICE_RELIABLE_DELIVERY;
inline constexpr VIP_RELIABILITY_LEVEL reliable_reception = VIP_SERVICE_RELIABLE_RECEPTION;

[[nodiscard]] std::string level_name(VIP_RELIABILITY_LEVEL level);

/// Tests that hold at each level derive from this; a level the device lacks is skipped.
class EachLevel : public testing::TestWithParam<VIP_RELIABILITY_LEVEL> {
  protected:
    void SetUp() override;
    [[nodiscard]] static VIP_RELIABILITY_LEVEL level() { return GetParam(); }
    [[nodiscard]] static bool breaks_on_error() { return GetParam() != unreliable; }
    [[nodiscard]] static bool reports_reception() { return GetParam() == reliable_reception; }
};

#define INSTANTIATE_EACH_LEVEL(suite)                                            \
    INSTANTIATE_TEST_SUITE_P(                                                    \
        Levels, suite,                                                           \
        testing::Values(::via::test::unreliable, ::via::test::reliable_delivery, \
                        ::via::test::reliable_reception),                        \
        [](const testing::TestParamInfo<VIP_RELIABILITY_LEVEL>& each) {          \
            return ::via::test::level_name(each.param);                          \
        })

// ---- Asynchronous errors --------------------------------------------------------------------

/// Keeps every asynchronous error of a NIC handle.
class ErrorRecorder {
  public:
    static void handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error);

    [[nodiscard]] std::vector<VIP_ERROR_DESCRIPTOR> events() const;
    [[nodiscard]] std::size_t count() const;
    [[nodiscard]] std::size_t count(VIP_ERROR_CODE code) const;
    [[nodiscard]] std::size_t count(VIP_ERROR_CODE code, VIP_VI_HANDLE vi) const;
    /// Waits for one with this code about this VI.
    [[nodiscard]] bool await(VIP_ERROR_CODE code, VIP_VI_HANDLE vi) const;
    /// The first with this code; all zero if there is none.
    [[nodiscard]] VIP_ERROR_DESCRIPTOR first(VIP_ERROR_CODE code) const;

  private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::vector<VIP_ERROR_DESCRIPTOR> events_;
};

// ---- NIC ------------------------------------------------------------------------------------

class Nic {
  public:
    explicit Nic(const char* name = device());
    Nic(const Nic&) = delete;
    Nic& operator=(const Nic&) = delete;
    ~Nic();

    operator VIP_NIC_HANDLE() const { return handle_; }  // NOLINT: the tests read as C calls
    [[nodiscard]] const VIP_NIC_ATTRIBUTES& attributes() const { return attributes_; }
    [[nodiscard]] ErrorRecorder& errors() { return *errors_; }
    [[nodiscard]] bool reads_at(VIP_RELIABILITY_LEVEL level) const {
        return (attributes_.RDMAReadSupport & level) != 0;
    }
    [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
    void close();
    /// Forgets the handle without closing it.
    VIP_NIC_HANDLE release() { return std::exchange(handle_, nullptr); }

  private:
    VIP_NIC_HANDLE handle_ = nullptr;
    VIP_NIC_ATTRIBUTES attributes_{};
    std::unique_ptr<ErrorRecorder> errors_;
};

[[nodiscard]] VIP_PROTECTION_HANDLE make_tag(const Nic& nic);

// ---- Addresses ------------------------------------------------------------------------------

/// A network address with room for the longest.
class Address {
  public:
    Address() = default;
    Address(std::string_view host, std::string_view discriminator);
    Address(const Nic& nic, std::string_view discriminator);

    [[nodiscard]] VIP_NET_ADDRESS* get() {
        return reinterpret_cast<VIP_NET_ADDRESS*>(bytes_.data());
    }
    [[nodiscard]] std::string host() const;
    [[nodiscard]] std::string discriminator() const;
    friend bool operator==(const Address& left, const Address& right) {
        return left.host() == right.host() && left.discriminator() == right.discriminator();
    }

  private:
    [[nodiscard]] std::uint16_t field(std::size_t offset) const;
    alignas(8) std::array<std::uint8_t, 1024> bytes_{};
};

/// The address of a NIC as VipQueryNic gives it.
[[nodiscard]] std::string host_of(const Nic& nic);
/// Eight bytes that no other call in any test process has returned.
[[nodiscard]] std::string unique_discriminator();

// ---- Memory and descriptors -----------------------------------------------------------------

struct Segment {
    const void* data = nullptr;
    VIP_MEM_HANDLE handle = 0;
    std::uint32_t bytes = 0;
};

/// The segments of a descriptor, also those behind the declared two.
[[nodiscard]] inline VIP_DESCRIPTOR_SEGMENT* segments_of(VIP_DESCRIPTOR* descriptor) {
    return reinterpret_cast<VIP_DESCRIPTOR_SEGMENT*>(reinterpret_cast<std::byte*>(descriptor) +
                                                     sizeof(VIP_CONTROL_SEGMENT));
}

struct Remote {
    const void* data = nullptr;
    VIP_MEM_HANDLE handle = 0;
};

/// A send or receive of the given segments; `control` may add bits.
void fill(VIP_DESCRIPTOR* descriptor, std::span<const Segment> segments, unsigned control = 0);
/// An RDMA write or read, according to `control`.
void fill_rdma(VIP_DESCRIPTOR* descriptor, Remote remote, std::span<const Segment> segments,
               unsigned control);

struct ArenaOptions {
    std::size_t bytes = 1U << 20;
    VIP_PROTECTION_HANDLE tag = nullptr;
    bool rdma_write = true;
    bool rdma_read = true;
};

/// Registered memory that hands out data and descriptors from one region, front to back.
class Arena {
  public:
    explicit Arena(Nic& nic, const ArenaOptions& options = {});
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    [[nodiscard]] VIP_MEM_HANDLE handle() const { return handle_; }
    [[nodiscard]] std::byte* base() const { return base_; }
    [[nodiscard]] std::size_t bytes() const { return options_.bytes; }
    [[nodiscard]] std::byte* take(std::size_t bytes, std::size_t alignment = 64);
    /// Zeroed, with room for `segments` segments.
    [[nodiscard]] VIP_DESCRIPTOR* descriptor(std::size_t segments = 2);

    [[nodiscard]] VIP_DESCRIPTOR* message(const void* data, std::size_t bytes,
                                          unsigned control = 0);
    [[nodiscard]] VIP_DESCRIPTOR* immediate_message(const void* data, std::size_t bytes,
                                                    std::uint32_t immediate);
    [[nodiscard]] VIP_DESCRIPTOR* rdma_write(const void* data, std::size_t bytes, Remote remote,
                                             unsigned control = 0);
    [[nodiscard]] VIP_DESCRIPTOR* rdma_read(const void* data, std::size_t bytes, Remote remote,
                                            unsigned control = 0);
    [[nodiscard]] Segment segment(const void* data, std::size_t bytes) const {
        return {data, handle_, static_cast<std::uint32_t>(bytes)};
    }
    void deregister();

  private:
    Nic& nic_;
    ArenaOptions options_;
    std::byte* base_ = nullptr;
    std::size_t used_ = 0;
    VIP_MEM_HANDLE handle_ = 0;
    bool registered_ = false;
};

/// Bytes that tell one message from another and one offset from the next.
void fill_pattern(std::byte* data, std::size_t bytes, std::uint32_t seed);
[[nodiscard]] testing::AssertionResult has_pattern(const std::byte* data, std::size_t bytes,
                                                   std::uint32_t seed);
[[nodiscard]] testing::AssertionResult all_bytes_are(const std::byte* data, std::size_t bytes,
                                                     std::byte value);
/// The same look at memory that somebody else may be writing, which is what the target of an RDMA
/// does; not instrumented, because that race is the point.
[[nodiscard]] bool shows_pattern(const std::byte* data, std::size_t bytes, std::uint32_t seed);
[[nodiscard]] inline bool comes_to_show_pattern(const std::byte* data, std::size_t bytes,
                                                std::uint32_t seed) {
    return eventually([=] { return shows_pattern(data, bytes, seed); });
}

/// Status while the library may still write it.
[[nodiscard]] inline std::uint32_t live_status(const VIP_DESCRIPTOR* descriptor) {
    return __atomic_load_n(&descriptor->CS.Status, __ATOMIC_ACQUIRE);
}

// ---- VI -------------------------------------------------------------------------------------

struct ViOptions {
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    VIP_ULONG max_transfer_bytes = 0;  ///< 0: all the NIC can
    VIP_PROTECTION_HANDLE tag = nullptr;
    bool rdma_write = true;
    bool rdma_read = true;  ///< only where the NIC can at this level
    VIP_CQ_HANDLE send_cq = nullptr;
    VIP_CQ_HANDLE recv_cq = nullptr;
};

[[nodiscard]] VIP_VI_ATTRIBUTES attributes_for(const Nic& nic, const ViOptions& options);

struct Completion {
    VIP_RETURN code = VIP_NOT_DONE;
    VIP_DESCRIPTOR* descriptor = nullptr;
    [[nodiscard]] std::uint32_t status() const { return descriptor ? descriptor->CS.Status : 0; }
    [[nodiscard]] std::uint32_t errors() const { return status() & VIP_STATUS_ERROR_MASK; }
    [[nodiscard]] std::uint32_t operation() const { return status() & VIP_STATUS_OP_MASK; }
    [[nodiscard]] std::uint32_t length() const { return descriptor ? descriptor->CS.Length : 0; }
};

class Vi {
  public:
    explicit Vi(Nic& nic, const ViOptions& options = {});
    Vi(const Vi&) = delete;
    Vi& operator=(const Vi&) = delete;
    /// Disconnects, drains and destroys, all of which must succeed.
    ~Vi();

    operator VIP_VI_HANDLE() const { return handle_; }  // NOLINT: the tests read as C calls
    [[nodiscard]] Nic& nic() const { return nic_; }
    [[nodiscard]] VIP_VI_STATE state() const;
    [[nodiscard]] bool send_queue_empty() const;
    [[nodiscard]] bool recv_queue_empty() const;
    [[nodiscard]] bool becomes(VIP_VI_STATE state) const;
    [[nodiscard]] VIP_VI_ATTRIBUTES attributes() const;

    /// Polls VipSendDone / VipRecvDone until the head is complete.
    [[nodiscard]] Completion await_send() const;
    [[nodiscard]] Completion await_recv() const;
    /// Everything both queues still hold, in order; waits for what is under way.
    std::vector<Completion> drain_send() const;
    std::vector<Completion> drain_recv() const;
    void destroy();
    void forget() { handle_ = nullptr; }

  private:
    Nic& nic_;
    VIP_VI_HANDLE handle_ = nullptr;
};

/// Client/server connection of two VIs of this process, with a thread for the server.
struct ConnectOutcome {
    VIP_RETURN request = VIP_NOT_DONE;
    VIP_RETURN wait = VIP_NOT_DONE;
    VIP_RETURN accept = VIP_NOT_DONE;
    VIP_VI_ATTRIBUTES seen_by_client{};
    VIP_VI_ATTRIBUTES seen_by_server{};
    Address requester;  ///< as VipConnectWait told it
};
ConnectOutcome connect(Vi& client, Vi& server);
/// VipConnectRequest, again while nobody waits yet.
VIP_RETURN request_until_matched(VIP_VI_HANDLE vi, Address& local, Address& remote,
                                 VIP_ULONG timeout = patience_ms,
                                 VIP_VI_ATTRIBUTES* remote_attributes = nullptr);

// ---- Two connected ends ---------------------------------------------------------------------

struct PairOptions {
    VIP_RELIABILITY_LEVEL level = reliable_delivery;
    std::size_t arena_bytes = 1U << 20;
    VIP_ULONG max_transfer_bytes = 0;
    bool one_nic_handle = false;
    bool rdma_write = true;  ///< rights of both VIs
    bool rdma_read = true;
    bool connected = true;
};

struct End {
    End(Nic& nic, const PairOptions& options, ViOptions vi_options);
    Nic& nic;
    VIP_PROTECTION_HANDLE tag;
    Arena arena;
    Vi vi;
    [[nodiscard]] VIP_RETURN post_send(VIP_DESCRIPTOR* descriptor) {
        return VipPostSend(vi, descriptor, arena.handle());
    }
    [[nodiscard]] VIP_RETURN post_recv(VIP_DESCRIPTOR* descriptor) {
        return VipPostRecv(vi, descriptor, arena.handle());
    }
    /// The asynchronous error comes while this VI is looked at with VipQueryVi.
    [[nodiscard]] bool raises(VIP_ERROR_CODE code) {
        return eventually([&] {
            static_cast<void>(vi.state());
            return nic.errors().count(code, vi) != 0;
        });
    }
};

/// Each end with its own tag, arena and VI, and with a NIC handle of its own unless told.
class Pair {
  public:
    explicit Pair(const PairOptions& options = {});
    explicit Pair(VIP_RELIABILITY_LEVEL level) : Pair(PairOptions{.level = level}) {}

  private:
    std::unique_ptr<Nic> client_nic_;
    std::unique_ptr<Nic> server_nic_;

  public:
    End client;
    End server;

    void connect_again();
    /// Both ends get to Error, looked at in turn.
    [[nodiscard]] bool both_break() const {
        return eventually([&] {
            const bool client_broken = client.vi.state() == VIP_STATE_ERROR;
            return server.vi.state() == VIP_STATE_ERROR && client_broken;
        });
    }
    [[nodiscard]] bool both_connected() const {
        return client.vi.state() == VIP_STATE_CONNECTED && server.vi.state() == VIP_STATE_CONNECTED;
    }
};

/// One message each way arrives whole: the connection works.
void expect_traffic(Pair& pair);

/// A VI brought into one of the four states, and whatever keeps it there.
class ViInState {
  public:
    ViInState(Nic& nic, VIP_VI_STATE state, const ViOptions& options = {});
    ~ViInState();
    Vi vi;

  private:
    std::unique_ptr<Vi> partner_;
};

// ---- A second process -----------------------------------------------------------------------

/// Bytes between a test and the process it started. Throws when the other side is late or gone.
class Link {
  public:
    explicit Link(int fd) : fd_(fd) {}
    void write(const void* data, std::size_t bytes) const;
    void read(void* data, std::size_t bytes) const;
    template <typename Value>
    void put(const Value& value) const {
        static_assert(std::is_trivially_copyable_v<Value>);
        write(&value, sizeof value);
    }
    template <typename Value>
    [[nodiscard]] Value get() const {
        static_assert(std::is_trivially_copyable_v<Value>);
        Value value{};
        read(&value, sizeof value);
        return value;
    }
    /// Both sides meet here.
    void meet() const {
        put<std::uint8_t>(1);
        static_cast<void>(get<std::uint8_t>());
    }
    void put_address(Address& address) const { put(address); }
    void close();

  private:
    int fd_;
};

using PeerRole = void (*)(Link& link);

/// Registers a role: the body of the second process. Failed expectations in it become its exit
/// code.
struct PeerRegistration {
    PeerRegistration(const char* name, PeerRole role);
};
#define PEER(name)                                                           \
    void name(::via::test::Link& link);                                      \
    const ::via::test::PeerRegistration name##_registration{#name, &(name)}; \
    void name([[maybe_unused]] ::via::test::Link& link)

/// Runs a role in a fresh process (this program again), with changes to the environment.
class PeerProcess {
  public:
    using Environment = std::map<std::string, std::string>;
    explicit PeerProcess(const char* role, const Environment& environment = {}, int stderr_fd = -1);
    PeerProcess(const PeerProcess&) = delete;
    PeerProcess& operator=(const PeerProcess&) = delete;
    ~PeerProcess();

    Link link;
    [[nodiscard]] pid_t pid() const { return pid_; }
    /// The exit code, minus the signal, or -1000 if it did not end in time (it is killed then).
    [[nodiscard]] int wait();
    void kill();
    [[nodiscard]] bool has_ended();

  private:
    PeerProcess(const char* role, const Environment& environment, int stderr_fd,
                std::pair<int, int> sockets);
    pid_t pid_ = -1;
    bool reaped_ = false;
    int code_ = 0;
};

/// Role main, or -1 if the arguments do not ask for one.
[[nodiscard]] int run_peer(int argc, char** argv);

/// A connection to a peer process: this end is the server.
struct ServerEnd {
    explicit ServerEnd(const PairOptions& options = {});
    /// Tells the peer where to connect and accepts it.
    void accept(Link& link);
    Nic nic;
    End end;
};
/// The end in the peer process: the client.
struct ClientEnd {
    explicit ClientEnd(const PairOptions& options = {});
    void request(Link& link);
    Nic nic;
    End end;
};

}  // namespace via::test
