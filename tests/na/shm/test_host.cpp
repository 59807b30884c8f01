// SPDX-License-Identifier: BSD-3-Clause
#include "na/shm/test_host.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <random>

#include <cstdlib>
#include <cstring>

namespace via::test {
namespace {

template <class T>
T must(base::Result<T>&& result) {
    if (!result) std::abort();
    return std::move(result).value();
}

base::UniqueFd copy_of(int fd) {
    return base::UniqueFd(dup(fd));
}

base::Error not_here() {
    return {base::Code::NotSupported, "not part of this host"};
}

}  // namespace

TestClient::TestClient(TestHost& host, std::uint64_t number, const na::Doorbell& doorbell)
    : pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))),
      pid(getpid()),
      host_(host),
      number_(number),
      doorbell_memory_(doorbell.memory_file()),
      doorbell_event_(doorbell.event()),
      table_(std::make_unique<ka::RmmtTable>(
          must(ka::RmmtTable::create(std::mt19937(static_cast<std::uint32_t>(number)))))) {}

void TestClient::renew_table() {
    auto table = std::make_unique<ka::RmmtTable>(must(ka::RmmtTable::create(std::mt19937(7))));
    for (const auto& [handle, region] : regions_)
        if (!table->restore(handle, region)) std::abort();
    old_table_ = std::exchange(table_, std::move(table));
    ++epoch_;
}

base::Result<ka::MemoryHandle> TestClient::register_memory(const void* address, std::uint64_t bytes,
                                                           ka::ProtectionTag tag,
                                                           std::uint32_t rights) {
    const auto* first = static_cast<const std::byte*>(address);
    ka::Region region{
        reinterpret_cast<std::uint64_t>(address), bytes, tag, rights, ka::no_arena, 0};
    for (const auto& [number, arena] : arenas_) {
        const std::byte* begin = arena.mapping.data();
        if (first < begin || first + bytes > begin + arena.mapping.size()) continue;
        region.arena = number;
        region.arena_offset = static_cast<std::uint64_t>(first - begin);
    }
    auto handle = table_->add(region);
    if (handle) regions_[handle.value()] = region;
    return handle;
}

base::Result<void> TestClient::deregister_memory(ka::MemoryHandle handle) {
    regions_.erase(handle);
    return table_->remove(handle);
}

base::Result<void> TestClient::change_memory(ka::MemoryHandle handle, ka::ProtectionTag tag,
                                             std::uint32_t rights) {
    ka::Region& region = regions_.at(handle);
    region.tag = tag;
    region.rights = rights;
    return table_->change(handle, region);
}

base::Result<ka::KmemBlock> TestClient::allocate_kmem(std::uint64_t bytes, ka::ProtectionTag) {
    const std::uint64_t rounded = (bytes + 4095) / 4096 * 4096;
    Arena arena;
    arena.file = must(base::create_memory_file("arena", rounded, base::Backing::Allocated));
    arena.mapping = must(base::Mapping::map(arena.file, rounded, base::Access::ReadWrite));
    const std::uint32_t number = next_arena_++;
    const ka::KmemBlock block{arena.mapping.data(), rounded, number, 0};
    arenas_.emplace(number, std::move(arena));
    return block;
}

base::Result<void> TestClient::free_kmem(const void* address) {
    std::erase_if(arenas_, [&](const auto& entry) {
        return entry.second.mapping.data() == static_cast<const std::byte*>(address);
    });
    return {};
}

void TestClient::disconnected(std::uint64_t connection) noexcept {
    const std::lock_guard guard(host_.mutex_);
    ended.push_back(connection);
}

// The blocking way to connect belongs to the kernel agent's own tests.
base::Result<ka::IncomingRequest> TestClient::connect_wait(const ka::NetAddress&, base::Deadline,
                                                           const void*, std::uint32_t) {
    return not_here();
}
base::Result<ka::Established> TestClient::connect_accept(std::uint64_t, const ka::ConnectOffer&,
                                                         base::Deadline) {
    return not_here();
}
base::Result<void> TestClient::connect_reject(std::uint64_t) {
    return not_here();
}
base::Result<ka::Established> TestClient::connect_request(const ka::ConnectOffer&, base::Deadline) {
    return not_here();
}
base::Result<ka::AgentStatus> TestClient::status() {
    return not_here();
}
base::Result<base::UniqueFd> TestClient::counters_of(std::int32_t) {
    return not_here();
}
base::Result<void> TestClient::stop_agent() {
    return not_here();
}

base::Result<std::uint64_t> TestClient::peer_request(const ka::ConnectOffer& offer,
                                                     base::Deadline) {
    const std::lock_guard guard(host_.mutex_);
    const std::uint64_t request = host_.next_request_++;
    TestHost::Request made;
    made.client = this;
    made.offer = offer;
    host_.requests_.emplace(request, std::move(made));
    host_.match(request);
    return request;
}

std::optional<base::Result<ka::Established>> TestClient::peer_poll(std::uint64_t request) {
    const std::lock_guard guard(host_.mutex_);
    const auto found = host_.requests_.find(request);
    if (found == host_.requests_.end())
        return base::Result<ka::Established>(base::Code::InvalidArgument, "no such request");
    if (!found->second.outcome) return std::nullopt;
    base::Result<ka::Established> outcome(std::move(*found->second.outcome));
    host_.requests_.erase(found);
    return outcome;
}

base::Result<ka::Established> TestClient::peer_wait(std::uint64_t request) {
    auto outcome = peer_poll(request);
    if (outcome) return std::move(*outcome);
    return base::Result<ka::Established>(base::Code::Timeout, "nobody came");
}

void TestClient::peer_cancel(std::uint64_t request) noexcept {
    const std::lock_guard guard(host_.mutex_);
    host_.requests_.erase(request);
}

base::Result<ka::ArenaGrant> TestClient::peer_arena(std::uint64_t connection, std::uint32_t arena) {
    const std::lock_guard guard(host_.mutex_);
    ++arenas_asked;
    TestClient* peer = host_.other_end(connection, this);
    if (refuse_arenas || peer == nullptr || !peer->arenas_.contains(arena))
        return base::Result<ka::ArenaGrant>(base::Code::PermissionDenied, "no such arena for you");
    const Arena& found = peer->arenas_.at(arena);
    return ka::ArenaGrant{copy_of(found.file.get()), found.mapping.size()};
}

base::Result<ka::AgentClient::RmmtGrant> TestClient::peer_rmmt(std::uint64_t connection) {
    const std::lock_guard guard(host_.mutex_);
    ++tables_asked;
    TestClient* peer = host_.other_end(connection, this);
    if (refuse_tables || peer == nullptr)
        return base::Result<RmmtGrant>(base::Code::PermissionDenied, "no table for you");
    return RmmtGrant{copy_of(peer->table_->file()->get()), peer->epoch_};
}

ka::PeerGrant TestClient::grant() const {
    ka::PeerGrant grant;
    grant.process = number_;
    grant.agent_epoch = 1;
    grant.pid = pid;
    grant.uid = getuid();
    grant.rmmt_epoch = epoch_;
    grant.pidfd = copy_of(pidfd.get());
    grant.rmmt = copy_of(table_->file()->get());
    grant.doorbell_memory = copy_of(doorbell_memory_);
    grant.doorbell_event = copy_of(doorbell_event_);
    return grant;
}

void TestHost::match(std::uint64_t newest) {
    Request& second = requests_.at(newest);
    for (auto& [number, first] : requests_) {
        if (number == newest || first.outcome || !(first.offer.local == second.offer.remote) ||
            !(first.offer.remote == second.offer.local))
            continue;
        for (Request* one : {&first, &second}) {
            const Request& other = one == &first ? second : first;
            if (one->client->mirror) one->offer.parameters = other.offer.parameters;
            if (one->client->mirror) one->offer.channel_bytes = other.offer.channel_bytes;
            if (one->client->tweak) one->client->tweak(one->offer.parameters);
        }
        const std::uint64_t connection = next_connection_++;
        connections_[connection] = {{first.client, second.client}};
        const std::uint64_t bytes = first.offer.channel_bytes;
        const base::UniqueFd channel =
            must(base::create_memory_file("channel", bytes, base::Backing::Allocated));
        for (Request* one : {&first, &second}) {
            const Request& other = one == &first ? second : first;
            ka::Established outcome;
            outcome.connection = connection;
            outcome.requester = one == &first;
            outcome.channel = copy_of(channel.get());
            outcome.channel_bytes = bytes;
            outcome.remote_attributes = other.offer.attributes;
            outcome.remote_address = other.offer.local;
            outcome.remote_parameters = other.offer.parameters;
            outcome.peer = other.client->grant();
            one->outcome = std::move(outcome);
        }
        return;
    }
}

TestClient* TestHost::other_end(std::uint64_t connection, const TestClient* one) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return nullptr;
    const Connection& both = found->second;
    return both.ends[0] == one ? both.ends[1] : both.ends[1] == one ? both.ends[0] : nullptr;
}

TestProcess::TestProcess(TestHost& host)
    : doorbell(must(na::Doorbell::create())),
      client(host, host.new_process(), doorbell),
      loop(must(base::EventLoop::create([] { return false; }, 1'000'000'000))),
      nic(std::make_unique<na::shm::ShmNicAgent>(client, doorbell, *loop)) {
    doorbell.page().rmmt_epoch.store(client.rmmt_epoch());
}

TestProcess::~TestProcess() {
    nic.reset();
}

TestMemory::TestMemory(TestProcess& process, std::size_t bytes, Kind kind, std::uint32_t rights,
                       ka::ProtectionTag tag)
    : process_(process), kind_(kind), bytes_(bytes) {
    if (kind == Kind::Heap) {
        heap_.resize(bytes);
        data_ = heap_.data();
    } else {
        data_ = must(process.client.allocate_kmem(bytes, tag)).address;
    }
    handle_ = must(process.client.register_memory(data_, bytes, tag, rights));
}

TestMemory::~TestMemory() {
    deregister();
    if (kind_ == Kind::Kmem) [[maybe_unused]]
        const auto freed = process_.client.free_kmem(data_);
}

void TestMemory::deregister() {
    if (!std::exchange(registered_, false)) return;
    if (!process_.client.deregister_memory(handle_)) std::abort();
}

TestVi::TestVi(TestProcess& own_process, std::uint32_t reliability, na::EndpointGroups groups,
               std::uint32_t small_ring, std::uint32_t low_water)
    : process(own_process), queues(small_ring, low_water, 4096) {
    queues.local.max_transfer_bytes = 1U << 30;
    queues.local.reliability = reliability;
    queues.local.rights = ka::right_rdma_write | ka::right_rdma_read;
    queues.local.tag = 1;
    queues.counters = &counters;
    auto made = must(process.nic->create_endpoint(queues, *this, groups));
    // Others may ask for progress already.
    const std::lock_guard guard(mutex);
    endpoint = std::move(made);
}

TestVi::~TestVi() {
    // Others may ask for progress until the endpoint is gone; the pointer stays till then.
    delete endpoint.get();
    [[maybe_unused]] const auto* gone = endpoint.release();
}

std::uint64_t TestVi::post(na::Operation operation, const na::PhysicalDescriptor* remote,
                           const std::vector<na::PhysicalDescriptor>& segments,
                           const SendOptions& options) {
    const std::lock_guard guard(mutex);
    na::WorkQueue& queue = operation == na::Operation::Receive ? queues.receive : queues.send;
    na::ChainHead head{};
    head.operation = operation;
    head.flags = static_cast<std::uint8_t>((options.immediate ? na::pd_immediate : 0) |
                                           (options.fence ? na::pd_fence : 0));
    head.segments = static_cast<std::uint16_t>(segments.size());
    for (const auto& segment : segments)
        head.length += segment.length;
    head.immediate = options.immediate.value_or(0);
    const std::uint32_t operation_bits =
        operation == na::Operation::Receive     ? na::status_op_receive
        : operation == na::Operation::RdmaWrite ? na::status_op_rdma_write
        : operation == na::Operation::RdmaRead  ? na::status_op_rdma_read
                                                : na::status_op_send;
    const std::uint64_t number = queue.posted();
    queue.post(number, 0, head.chain_pds(), operation_bits);
    queue.pds.push(na::encode_head(head));
    if (remote != nullptr) queue.pds.push(*remote);
    for (const auto& segment : segments)
        queue.pds.push(segment);
    if (operation != na::Operation::Receive) endpoint->ring_send();
    return number;
}

std::uint64_t TestVi::post_send(const std::vector<na::PhysicalDescriptor>& segments,
                                const SendOptions& options) {
    return post(na::Operation::Send, nullptr, segments, options);
}

std::uint64_t TestVi::post_rdma(na::Operation operation, const na::PhysicalDescriptor& remote,
                                const std::vector<na::PhysicalDescriptor>& segments,
                                const SendOptions& options) {
    return post(operation, &remote, segments, options);
}

std::uint64_t TestVi::post_receive(const std::vector<na::PhysicalDescriptor>& segments) {
    return post(na::Operation::Receive, nullptr, segments, {});
}

bool TestVi::poll() {
    const std::lock_guard guard(mutex);
    return endpoint->poll();
}

bool TestVi::progress(bool nudge_peer) {
    const std::lock_guard guard(mutex);
    ++progressed;
    if (!endpoint) return false;
    endpoint->poll();
    const bool unfinished = endpoint->unfinished();
    if (nudge_peer && unfinished) endpoint->nudge();
    // As the user agent does: a broken connection is given up.
    constexpr auto fatal = static_cast<std::uint32_t>(na::EndpointEvent::PeerDisconnected) |
                           static_cast<std::uint32_t>(na::EndpointEvent::PeerDied) |
                           static_cast<std::uint32_t>(na::EndpointEvent::ProtocolViolation);
    if ((queues.events & fatal) != 0) endpoint->disconnect();
    return unfinished;
}

std::optional<Done> TestVi::done(na::WorkQueue& queue) {
    if (!queue.harvestable()) return std::nullopt;
    queue.harvest();
    const na::WorkEntry& entry = queue.reap();
    return Done{entry.cookie, entry.status, entry.length, entry.immediate};
}

std::optional<Done> TestVi::send_done() {
    const std::lock_guard guard(mutex);
    return done(queues.send);
}

std::optional<Done> TestVi::receive_done() {
    const std::lock_guard guard(mutex);
    return done(queues.receive);
}

std::uint32_t TestVi::take_events() {
    const std::lock_guard guard(mutex);
    return std::exchange(queues.events, 0);
}

void TestVi::flush() {
    const std::lock_guard guard(mutex);
    queues.send.flush();
    queues.receive.flush();
}

void TestVi::disconnect() {
    const std::lock_guard guard(mutex);
    endpoint->disconnect();
}

ka::NetAddress address_named(const char* discriminator) {
    ka::NetAddress address;
    address.discriminator_bytes = static_cast<std::uint8_t>(std::strlen(discriminator));
    std::memcpy(address.discriminator.data(), discriminator, address.discriminator_bytes);
    return address;
}

base::Result<void> connect(TestVi& one, TestVi& other) {
    const auto left = address_named("left");
    const auto right = address_named("right");
    auto first =
        one.process.nic->peer_request(*one.endpoint, {1, left, right}, base::Deadline::never());
    if (!first) return std::move(first).error();
    auto second =
        other.process.nic->peer_request(*other.endpoint, {1, right, left}, base::Deadline::never());
    if (!second) return std::move(second).error();
    if (auto live = one.process.nic->peer_wait(*one.endpoint, first.value()); !live) return live;
    return other.process.nic->peer_wait(*other.endpoint, second.value());
}

bool drive(TestVi& one, TestVi& other, int most) {
    int quiet = 0;
    for (int i = 0; i < most; ++i) {
        const bool moved_one = one.poll();
        const bool moved_other = other.poll();
        const bool busy =
            moved_one || moved_other || one.endpoint->unfinished() || other.endpoint->unfinished();
        // Some looks are made only now and then.
        quiet = busy ? 0 : quiet + 1;
        if (quiet > 150) return true;
    }
    return false;
}

RawPeer::RawPeer(TestHost& host, TestVi& victim)
    : doorbell(must(na::Doorbell::create())),
      client(host, host.new_process(), doorbell),
      victim_(victim) {
    doorbell.page().rmmt_epoch.store(client.rmmt_epoch());
    client.mirror = true;
}

RawPeer::~RawPeer() = default;

base::Result<void> RawPeer::connect(bool raw_first) {
    const auto left = address_named("victim");
    const auto right = address_named("raw");
    ka::ConnectOffer offer;
    offer.local = right;
    offer.remote = left;
    offer.attributes = victim_.queues.local;
    offer.channel_bytes = victim_.process.nic->settings().geometry.channel_bytes();
    const auto ask = [&] { return client.peer_request(offer, base::Deadline::never()); };
    base::Result<std::uint64_t> own(base::Code::System, "");
    if (raw_first) own = ask();
    auto theirs = victim_.process.nic->peer_request(*victim_.endpoint, {1, left, right},
                                                    base::Deadline::never());
    if (!theirs) return std::move(theirs).error();
    if (!raw_first) own = ask();
    if (!own) return std::move(own).error();
    auto established = client.peer_wait(own.value());
    if (!established) return std::move(established).error();
    if (auto live = victim_.process.nic->peer_wait(*victim_.endpoint, theirs.value()); !live)
        return live;
    auto mapping = base::Mapping::map(established.value().channel,
                                      established.value().channel_bytes, base::Access::ReadWrite);
    if (!mapping) return std::move(mapping).error();
    channel_ = std::move(mapping).value();
    const na::shm::Geometry geometry = victim_.process.nic->settings().geometry;
    std::byte* first = channel_.data();
    std::byte* second = channel_.data() + geometry.direction_bytes;
    towards_ = na::shm::Direction::at(raw_first ? first : second, geometry);
    from_ = na::shm::Direction::at(raw_first ? second : first, geometry);
    writer.emplace(towards_);
    reader.emplace(from_);
    return {};
}

bool RawPeer::send(na::shm::FrameKind kind, std::span<const std::byte> payload, std::uint8_t flags,
                   std::uint32_t argument) {
    const auto bytes = static_cast<std::uint32_t>(payload.size());
    if (!writer->reserve(bytes)) return false;
    writer->publish(kind, flags, payload.data(), bytes, argument);
    return true;
}

std::optional<na::shm::RingChunk> RawPeer::put_in_ring(std::span<const std::byte> bytes) {
    const auto place = writer->find_place(static_cast<std::uint32_t>(bytes.size()));
    if (place.at == nullptr) return std::nullopt;
    std::memcpy(place.at, bytes.data(), bytes.size());
    writer->take_place(place);
    return place.chunk;
}

bool RawPeer::send_words(na::shm::FrameKind kind, std::initializer_list<std::uint32_t> words,
                         std::uint8_t flags, std::uint32_t argument) {
    return send(kind, std::as_bytes(std::span(words.begin(), words.size())), flags, argument);
}

}  // namespace via::test
