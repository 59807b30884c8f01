// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <stdexcept>

void PrintTo(VIP_VI_STATE state, std::ostream* out) {
    static constexpr const char* names[] = {"Idle", "Connected", "Connect Pending", "Error"};
    *out << (state <= VIP_STATE_ERROR ? names[state] : "no state");
}

void PrintTo(VIP_ERROR_CODE code, std::ostream* out) {
    static constexpr const char* names[] = {
        "POST_DESC",   "CONN_LOST",  "RECVQ_EMPTY", "VI_OVERRUN",     "RDMAW_PROT",  "RDMAW_DATA",
        "RDMAW_ABORT", "RDMAR_PROT", "COMP_PROT",   "RDMA_TRANSPORT", "CATASTROPHIC"};
    *out << (code <= VIP_ERROR_CATASTROPHIC ? names[code] : "no code");
}

namespace via::test {
namespace {

std::string returned_text(VIP_RETURN code) {
    return std::string(VipxReturnName(code)) + " (" + std::to_string(static_cast<int>(code)) + ")";
}

[[noreturn]] void fail(const std::string& what, VIP_RETURN code) {
    throw std::runtime_error(what + ": " + returned_text(code) + ", " + VipxErrorText());
}

}  // namespace

const char* device() {
    static const char* const name = [] {
        const char* given = std::getenv("VIA_TEST_DEVICE");
        return given != nullptr && *given != '\0' ? given : "shm0";
    }();
    return name;
}

bool simulated() {
    return std::string_view(device()).starts_with("lanai");
}

bool use_kmem() {
    static const bool kmem = [] {
        const char* given = std::getenv("VIA_TEST_MEMORY");
        return given != nullptr && std::string_view(given) == "kmem";
    }();
    return kmem;
}

unsigned rounds(unsigned wanted) {
#if defined(__SANITIZE_THREAD__)
    return std::max(1U, wanted / 10);
#elif defined(__SANITIZE_ADDRESS__)
    return std::max(1U, wanted / 4);
#else
    return wanted;
#endif
}

bool try_limits() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return false;
#else
    const char* given = std::getenv("VIA_TEST_LIMITS");
    return given == nullptr || std::string_view(given) != "0";
#endif
}

testing::AssertionResult vip_returned(const char* expected_text, const char* call_text,
                                      VIP_RETURN expected, VIP_RETURN actual) {
    if (expected == actual) return testing::AssertionSuccess();
    auto result = testing::AssertionFailure()
                  << call_text << "\n  returned " << returned_text(actual) << "\n  expected "
                  << expected_text;
    if (actual != VIP_SUCCESS) result << "\n  " << VipxErrorText();
    return result;
}

std::string level_name(VIP_RELIABILITY_LEVEL level) {
    switch (level) {
        case unreliable:
            return "UD";
        case reliable_delivery:
            return "RD";
        case reliable_reception:
            return "RR";
        default:
            return "level" + std::to_string(level);
    }
}

void EachLevel::SetUp() {
    const Nic nic;
    if ((nic.attributes().ReliabilityLevelSupport & level()) == 0) {
        GTEST_SKIP() << device() << " does not offer " << level_name(level());
    }
}

// ---- Asynchronous errors --------------------------------------------------------------------

void ErrorRecorder::handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    auto* recorder = static_cast<ErrorRecorder*>(context);
    const std::lock_guard lock(recorder->mutex_);
    recorder->events_.push_back(*error);
    recorder->changed_.notify_all();
}

std::vector<VIP_ERROR_DESCRIPTOR> ErrorRecorder::events() const {
    const std::lock_guard lock(mutex_);
    return events_;
}

std::size_t ErrorRecorder::count() const {
    const std::lock_guard lock(mutex_);
    return events_.size();
}

std::size_t ErrorRecorder::count(VIP_ERROR_CODE code) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(events_.begin(), events_.end(),
                      [=](const auto& event) { return event.ErrorCode == code; }));
}

std::size_t ErrorRecorder::count(VIP_ERROR_CODE code, VIP_VI_HANDLE vi) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        events_.begin(), events_.end(),
        [=](const auto& event) { return event.ErrorCode == code && event.ViHandle == vi; }));
}

bool ErrorRecorder::await(VIP_ERROR_CODE code, VIP_VI_HANDLE vi) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] {
        return std::any_of(events_.begin(), events_.end(), [&](const auto& event) {
            return event.ErrorCode == code && event.ViHandle == vi;
        });
    });
}

VIP_ERROR_DESCRIPTOR ErrorRecorder::first(VIP_ERROR_CODE code) const {
    const std::lock_guard lock(mutex_);
    for (const auto& event : events_) {
        if (event.ErrorCode == code) return event;
    }
    return {};
}

// ---- NIC ------------------------------------------------------------------------------------

Nic::Nic(const char* name) : errors_(std::make_unique<ErrorRecorder>()) {
    VIP_RETURN code = VipOpenNic(name, &handle_);
    if (code != VIP_SUCCESS) fail(std::string("VipOpenNic ") + name, code);
    code = VipQueryNic(handle_, &attributes_);
    if (code != VIP_SUCCESS) fail("VipQueryNic", code);
    code = VipErrorCallback(handle_, errors_.get(), &ErrorRecorder::handle);
    if (code != VIP_SUCCESS) fail("VipErrorCallback", code);
}

Nic::~Nic() {
    close();
}

void Nic::close() {
    if (handle_ == nullptr) return;
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(handle_));
    handle_ = nullptr;
}

VIP_PROTECTION_HANDLE make_tag(const Nic& nic) {
    VIP_PROTECTION_HANDLE tag = nullptr;
    const VIP_RETURN code = VipCreatePtag(nic, &tag);
    if (code != VIP_SUCCESS) fail("VipCreatePtag", code);
    return tag;
}

// ---- Addresses ------------------------------------------------------------------------------

Address::Address(std::string_view host, std::string_view discriminator) {
    const auto host_bytes = static_cast<std::uint16_t>(host.size());
    const auto discriminator_bytes = static_cast<std::uint16_t>(discriminator.size());
    std::memcpy(bytes_.data(), &host_bytes, sizeof host_bytes);
    std::memcpy(bytes_.data() + 2, &discriminator_bytes, sizeof discriminator_bytes);
    std::copy(host.begin(), host.end(), bytes_.begin() + 4);
    std::copy(discriminator.begin(), discriminator.end(), bytes_.begin() + 4 + host_bytes);
}

Address::Address(const Nic& nic, std::string_view discriminator)
    : Address(host_of(nic), discriminator) {}

std::uint16_t Address::field(std::size_t offset) const {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
}

std::string Address::host() const {
    return {reinterpret_cast<const char*>(bytes_.data()) + 4, field(0)};
}

std::string Address::discriminator() const {
    return {reinterpret_cast<const char*>(bytes_.data()) + 4 + field(0), field(2)};
}

std::string host_of(const Nic& nic) {
    return {reinterpret_cast<const char*>(nic.attributes().LocalNicAddress),
            nic.attributes().NicAddressLen};
}

std::string unique_discriminator() {
    static std::atomic<std::uint32_t> counter{0};
    const std::array<std::uint32_t, 2> words{static_cast<std::uint32_t>(getpid()),
                                             counter.fetch_add(1)};
    return {reinterpret_cast<const char*>(words.data()), sizeof words};
}

// ---- Memory and descriptors -----------------------------------------------------------------

void fill(VIP_DESCRIPTOR* descriptor, std::span<const Segment> segments, unsigned control) {
    descriptor->CS = {};
    descriptor->CS.SegCount = static_cast<VIP_UINT16>(segments.size());
    descriptor->CS.Control = static_cast<VIP_UINT16>(VIP_CONTROL_OP_SENDRECV | control);
    auto* out = segments_of(descriptor);
    for (const Segment& segment : segments) {
        out->Local.Data.AddressBits = reinterpret_cast<std::uintptr_t>(segment.data);
        out->Local.Handle = segment.handle;
        out->Local.Length = segment.bytes;
        descriptor->CS.Length += segment.bytes;
        ++out;
    }
}

void fill_rdma(VIP_DESCRIPTOR* descriptor, Remote remote, std::span<const Segment> segments,
               unsigned control) {
    descriptor->CS = {};
    descriptor->CS.SegCount = static_cast<VIP_UINT16>(segments.size() + 1);
    descriptor->CS.Control = static_cast<VIP_UINT16>(control);
    auto* out = segments_of(descriptor);
    out->Remote.Data.AddressBits = reinterpret_cast<std::uintptr_t>(remote.data);
    out->Remote.Handle = remote.handle;
    out->Remote.Reserved = 0;
    for (const Segment& segment : segments) {
        ++out;
        out->Local.Data.AddressBits = reinterpret_cast<std::uintptr_t>(segment.data);
        out->Local.Handle = segment.handle;
        out->Local.Length = segment.bytes;
        descriptor->CS.Length += segment.bytes;
    }
}

Arena::Arena(Nic& nic, const ArenaOptions& options) : nic_(nic), options_(options) {
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = options.tag;
    attributes.EnableRdmaWrite = options.rdma_write ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead =
        options.rdma_read && nic.attributes().RDMAReadSupport != 0 ? VIP_TRUE : VIP_FALSE;
    if (use_kmem()) {
        VIP_PVOID address = nullptr;
        const VIP_RETURN code = VipxAllocMem(nic, options.bytes, &attributes, &address, &handle_);
        if (code != VIP_SUCCESS) fail("VipxAllocMem", code);
        base_ = static_cast<std::byte*>(address);
    } else {
        base_ = static_cast<std::byte*>(::operator new (options.bytes, std::align_val_t{4096}));
        std::memset(base_, 0, options.bytes);
        const VIP_RETURN code = VipRegisterMem(nic, base_, options.bytes, &attributes, &handle_);
        if (code != VIP_SUCCESS) fail("VipRegisterMem", code);
    }
    registered_ = true;
}

Arena::~Arena() {
    deregister();
    if (!use_kmem()) ::operator delete (base_, std::align_val_t{4096});
}

void Arena::deregister() {
    if (!registered_) return;
    registered_ = false;
    if (!nic_.is_open()) return;
    if (use_kmem()) {
        EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic_, base_, handle_));
    } else {
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic_, base_, handle_));
    }
}

std::byte* Arena::take(std::size_t bytes, std::size_t alignment) {
    const std::size_t first = (used_ + alignment - 1) / alignment * alignment;
    if (first > options_.bytes || bytes > options_.bytes - first) {
        throw std::runtime_error("the test's arena is too small");
    }
    used_ = first + bytes;
    return base_ + first;
}

VIP_DESCRIPTOR* Arena::descriptor(std::size_t segments) {
    const std::size_t bytes = sizeof(VIP_CONTROL_SEGMENT) +
                              std::max<std::size_t>(2, segments) * sizeof(VIP_DESCRIPTOR_SEGMENT);
    std::byte* memory = take(bytes, VIP_DESCRIPTOR_ALIGNMENT);
    std::memset(memory, 0, bytes);
    return reinterpret_cast<VIP_DESCRIPTOR*>(memory);
}

VIP_DESCRIPTOR* Arena::message(const void* data, std::size_t bytes, unsigned control) {
    VIP_DESCRIPTOR* result = descriptor();
    const Segment part = segment(data, bytes);
    fill(result, {&part, 1}, control);
    return result;
}

VIP_DESCRIPTOR* Arena::immediate_message(const void* data, std::size_t bytes,
                                         std::uint32_t immediate) {
    VIP_DESCRIPTOR* result = message(data, bytes, VIP_CONTROL_IMMEDIATE);
    result->CS.ImmediateData = immediate;
    return result;
}

VIP_DESCRIPTOR* Arena::rdma_write(const void* data, std::size_t bytes, Remote remote,
                                  unsigned control) {
    VIP_DESCRIPTOR* result = descriptor();
    const Segment part = segment(data, bytes);
    fill_rdma(result, remote, {&part, 1}, VIP_CONTROL_OP_RDMAWRITE | control);
    return result;
}

VIP_DESCRIPTOR* Arena::rdma_read(const void* data, std::size_t bytes, Remote remote,
                                 unsigned control) {
    VIP_DESCRIPTOR* result = descriptor();
    const Segment part = segment(data, bytes);
    fill_rdma(result, remote, {&part, 1}, VIP_CONTROL_OP_RDMAREAD | control);
    return result;
}

namespace {

std::byte pattern_byte(std::size_t offset, std::uint32_t seed) {
    // A multiplicative hash of the 8-byte group, so that shifted and swapped blocks differ.
    const std::uint64_t group = (offset / 8 + 1) * 0x9E3779B97F4A7C15U + seed * 0xBF58476D1CE4E5B9U;
    return static_cast<std::byte>((group >> (8 * (offset % 8))) & 0xFF);
}

}  // namespace

void fill_pattern(std::byte* data, std::size_t bytes, std::uint32_t seed) {
    for (std::size_t i = 0; i < bytes; ++i)
        data[i] = pattern_byte(i, seed);
}

testing::AssertionResult has_pattern(const std::byte* data, std::size_t bytes, std::uint32_t seed) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if (data[i] != pattern_byte(i, seed)) {
            return testing::AssertionFailure()
                   << "byte " << i << " of " << bytes << " is " << std::to_integer<int>(data[i])
                   << ", not " << std::to_integer<int>(pattern_byte(i, seed));
        }
    }
    return testing::AssertionSuccess();
}

#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
bool shows_pattern(const std::byte* data, std::size_t bytes, std::uint32_t seed) {
    const auto* live = static_cast<const volatile unsigned char*>(static_cast<const void*>(data));
    for (std::size_t i = 0; i < bytes; ++i) {
        if (live[i] != std::to_integer<unsigned char>(pattern_byte(i, seed))) return false;
    }
    return true;
}

testing::AssertionResult all_bytes_are(const std::byte* data, std::size_t bytes, std::byte value) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if (data[i] != value) {
            return testing::AssertionFailure()
                   << "byte " << i << " of " << bytes << " is " << std::to_integer<int>(data[i]);
        }
    }
    return testing::AssertionSuccess();
}

// ---- VI -------------------------------------------------------------------------------------

VIP_VI_ATTRIBUTES attributes_for(const Nic& nic, const ViOptions& options) {
    VIP_VI_ATTRIBUTES attributes{};
    attributes.ReliabilityLevel = options.level;
    attributes.MaxTransferSize = options.max_transfer_bytes != 0 ? options.max_transfer_bytes
                                                                 : nic.attributes().MaxTransferSize;
    attributes.Ptag = options.tag;
    attributes.EnableRdmaWrite = options.rdma_write ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead =
        options.rdma_read && nic.reads_at(options.level) ? VIP_TRUE : VIP_FALSE;
    return attributes;
}

Vi::Vi(Nic& nic, const ViOptions& options) : nic_(nic) {
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, options);
    const VIP_RETURN code =
        VipCreateVi(nic, &attributes, options.send_cq, options.recv_cq, &handle_);
    if (code != VIP_SUCCESS) fail("VipCreateVi", code);
}

Vi::~Vi() {
    if (handle_ == nullptr || !nic_.is_open()) return;
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(handle_));
    drain_send();
    drain_recv();
    destroy();
}

void Vi::destroy() {
    EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(handle_));
    handle_ = nullptr;
}

VIP_VI_STATE Vi::state() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return state;
}

VIP_VI_ATTRIBUTES Vi::attributes() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return attributes;
}

bool Vi::send_queue_empty() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return send_empty != VIP_FALSE;
}

bool Vi::recv_queue_empty() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return recv_empty != VIP_FALSE;
}

bool Vi::becomes(VIP_VI_STATE wanted) const {
    return eventually([&] { return state() == wanted; });
}

Completion Vi::await_send() const {
    Completion completion;
    static_cast<void>(eventually([&] {
        completion.code = VipSendDone(handle_, &completion.descriptor);
        return completion.code != VIP_NOT_DONE;
    }));
    return completion;
}

Completion Vi::await_recv() const {
    Completion completion;
    static_cast<void>(eventually([&] {
        completion.code = VipRecvDone(handle_, &completion.descriptor);
        return completion.code != VIP_NOT_DONE;
    }));
    return completion;
}

std::vector<Completion> Vi::drain_send() const {
    std::vector<Completion> all;
    for (;;) {
        const Completion completion = await_send();
        if (completion.code == VIP_DESCRIPTOR_ERROR && completion.descriptor == nullptr) break;
        if (completion.code != VIP_SUCCESS && completion.code != VIP_DESCRIPTOR_ERROR) {
            ADD_FAILURE() << "the send queue does not drain: " << VipxReturnName(completion.code);
            break;
        }
        all.push_back(completion);
    }
    return all;
}

std::vector<Completion> Vi::drain_recv() const {
    std::vector<Completion> all;
    for (;;) {
        const Completion completion = await_recv();
        if (completion.code == VIP_DESCRIPTOR_ERROR && completion.descriptor == nullptr) break;
        if (completion.code != VIP_SUCCESS && completion.code != VIP_DESCRIPTOR_ERROR) {
            ADD_FAILURE() << "the receive queue does not drain: "
                          << VipxReturnName(completion.code);
            break;
        }
        all.push_back(completion);
    }
    return all;
}

VIP_RETURN request_until_matched(VIP_VI_HANDLE vi, Address& local, Address& remote,
                                 VIP_ULONG timeout, VIP_VI_ATTRIBUTES* remote_attributes) {
    VIP_VI_ATTRIBUTES unused{};
    VIP_RETURN code = VIP_NO_MATCH;
    static_cast<void>(eventually([&] {
        code = VipConnectRequest(vi, local.get(), remote.get(), timeout,
                                 remote_attributes != nullptr ? remote_attributes : &unused);
        if (code == VIP_NO_MATCH) sched_yield();
        return code != VIP_NO_MATCH;
    }));
    return code;
}

ConnectOutcome connect(Vi& client, Vi& server) {
    ConnectOutcome outcome;
    Address server_address(server.nic(), unique_discriminator());
    Address client_address(client.nic(), unique_discriminator());
    std::thread acceptor([&] {
        VIP_CONN_HANDLE connection = nullptr;
        outcome.wait =
            VipConnectWait(server.nic(), server_address.get(), patience_ms, outcome.requester.get(),
                           &outcome.seen_by_server, &connection);
        if (outcome.wait != VIP_SUCCESS) return;
        outcome.accept = VipConnectAccept(connection, server);
        if (outcome.accept != VIP_SUCCESS) {
            EXPECT_VIP(VIP_SUCCESS, VipConnectReject(connection));
        }
    });
    outcome.request = request_until_matched(client, client_address, server_address, patience_ms,
                                            &outcome.seen_by_client);
    acceptor.join();
    return outcome;
}

// ---- Two connected ends ---------------------------------------------------------------------

namespace {

ViOptions vi_options_of(const PairOptions& options) {
    ViOptions result;
    result.level = options.level;
    result.max_transfer_bytes = options.max_transfer_bytes;
    result.rdma_write = options.rdma_write;
    result.rdma_read = options.rdma_read;
    return result;
}

ViOptions with_tag(ViOptions options, VIP_PROTECTION_HANDLE tag) {
    options.tag = tag;
    return options;
}

}  // namespace

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
    if (outcome.request != VIP_SUCCESS) fail("VipConnectRequest", outcome.request);
    if (outcome.wait != VIP_SUCCESS) fail("VipConnectWait", outcome.wait);
    if (outcome.accept != VIP_SUCCESS) fail("VipConnectAccept", outcome.accept);
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
        if (code != VIP_SUCCESS) fail("VipConnectPeerRequest", code);
    } else {
        ViOptions partner_options = options;
        partner_options.send_cq = nullptr;
        partner_options.recv_cq = nullptr;
        partner_ = std::make_unique<Vi>(nic, partner_options);
        const ConnectOutcome outcome = connect(vi, *partner_);
        if (outcome.request != VIP_SUCCESS) fail("VipConnectRequest", outcome.request);
        if (state == VIP_STATE_ERROR) {
            EXPECT_VIP(VIP_SUCCESS, VipDisconnect(*partner_));
            EXPECT_TRUE(vi.becomes(VIP_STATE_ERROR));
        }
    }
    EXPECT_EQ(vi.state(), state);
}

ViInState::~ViInState() = default;

// ---- A second process -----------------------------------------------------------------------

namespace {

void await_fd(int fd, short events) {
    pollfd entry{fd, events, 0};
    // Longer than any wait inside the other process, so that its own message comes first.
    const auto limit = static_cast<int>(3 * patience_ms);
    int ready = 0;
    do {
        ready = poll(&entry, 1, limit);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) throw std::runtime_error("the other process is late");
    if (ready < 0) throw std::runtime_error("poll failed");
}

std::map<std::string, PeerRole>& roles() {
    static std::map<std::string, PeerRole> all;
    return all;
}

std::pair<int, int> make_sockets() {
    int fds[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        throw std::runtime_error("no socket pair for the other process");
    }
    return {fds[0], fds[1]};
}

}  // namespace

void Link::write(const void* data, std::size_t bytes) const {
    const auto* next = static_cast<const char*>(data);
    while (bytes > 0) {
        await_fd(fd_, POLLOUT);
        const ssize_t done = send(fd_, next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (done <= 0) throw std::runtime_error("the other process is gone");
        next += done;
        bytes -= static_cast<std::size_t>(done);
    }
}

void Link::read(void* data, std::size_t bytes) const {
    auto* next = static_cast<char*>(data);
    while (bytes > 0) {
        await_fd(fd_, POLLIN);
        const ssize_t done = recv(fd_, next, bytes, MSG_DONTWAIT);
        if (done < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (done <= 0) throw std::runtime_error("the other process is gone");
        next += done;
        bytes -= static_cast<std::size_t>(done);
    }
}

void Link::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

PeerRegistration::PeerRegistration(const char* name, PeerRole role) {
    if (!roles().emplace(name, role).second) std::abort();
}

PeerProcess::PeerProcess(const char* role, const Environment& environment, int stderr_fd)
    : PeerProcess(role, environment, stderr_fd, make_sockets()) {}

PeerProcess::PeerProcess(const char* role, const Environment& environment, int stderr_fd,
                         std::pair<int, int> sockets)
    : link(sockets.first) {
    Environment changes = environment;
#if defined(__SANITIZE_ADDRESS__)
    // Looking for leaks takes seconds at the end of a process on some machines. The test program
    // itself, with the same library in it, is looked through once.
    const char* options = std::getenv("ASAN_OPTIONS");
    changes["ASAN_OPTIONS"] = std::string(options != nullptr ? options : "") + ":detect_leaks=0";
#endif
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        if (!changes.contains(std::string(text.substr(0, text.find('='))))) {
            variables.emplace_back(text);
        }
    }
    for (const auto& [name, value] : changes)
        variables.push_back(name + "=" + value);
    std::vector<char*> environment_pointers;
    for (auto& variable : variables)
        environment_pointers.push_back(variable.data());
    environment_pointers.push_back(nullptr);

    constexpr int link_fd_in_child = 100;
    std::string program = "/proc/self/exe";
    std::string flag = "--peer";
    std::string role_text = role;
    std::string fd_text = std::to_string(link_fd_in_child);
    char* arguments[] = {program.data(), flag.data(), role_text.data(), fd_text.data(), nullptr};

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, sockets.second, link_fd_in_child);
    if (stderr_fd >= 0) posix_spawn_file_actions_adddup2(&actions, stderr_fd, STDERR_FILENO);
    const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments,
                                  environment_pointers.data());
    posix_spawn_file_actions_destroy(&actions);
    ::close(sockets.second);
    if (error != 0) {
        reaped_ = true;
        link.close();
        throw std::runtime_error("the second process does not start");
    }
}

PeerProcess::~PeerProcess() {
    link.close();
    if (!reaped_) {
        kill();
        static_cast<void>(wait());
    }
}

void PeerProcess::kill() {
    if (!reaped_) ::kill(pid_, SIGKILL);
}

bool PeerProcess::has_ended() {
    siginfo_t info{};
    return reaped_ ||
           (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == pid_);
}

int PeerProcess::wait() {
    if (reaped_) return code_;
    int status = 0;
    bool late = false;
    const auto deadline = Clock::now() + 3 * patience;
    for (;;) {
        const pid_t ended = waitpid(pid_, &status, WNOHANG);
        if (ended == pid_ || (ended < 0 && errno != EINTR)) break;
        if (!late && Clock::now() > deadline) {
            late = true;
            ::kill(pid_, SIGKILL);
        }
        usleep(500);
    }
    reaped_ = true;
    if (late) {
        code_ = -1000;
    } else {
        code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    return code_;
}

int run_peer(int argc, char** argv) {
    if (argc < 4 || std::string_view(argv[1]) != "--peer") return -1;
    // The test may die; its helper must not outlive it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto role = roles().find(argv[2]);
    if (role == roles().end()) return 99;
    const int fd = std::atoi(argv[3]);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    Link link(fd);
    try {
        role->second(link);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[2], error.what());
        return 98;
    }
    return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}

ServerEnd::ServerEnd(const PairOptions& options) : end(nic, options, vi_options_of(options)) {}

void ServerEnd::accept(Link& link) {
    Address local(nic, unique_discriminator());
    link.put(local);
    Address remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    VIP_RETURN code =
        VipConnectWait(nic, local.get(), patience_ms, remote.get(), &attributes, &connection);
    if (code != VIP_SUCCESS) fail("VipConnectWait", code);
    code = VipConnectAccept(connection, end.vi);
    if (code != VIP_SUCCESS) fail("VipConnectAccept", code);
}

ClientEnd::ClientEnd(const PairOptions& options) : end(nic, options, vi_options_of(options)) {}

void ClientEnd::request(Link& link) {
    auto remote = link.get<Address>();
    Address local(nic, unique_discriminator());
    const VIP_RETURN code = request_until_matched(end.vi, local, remote);
    if (code != VIP_SUCCESS) fail("VipConnectRequest", code);
}

}  // namespace via::test
