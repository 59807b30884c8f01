// SPDX-License-Identifier: BSD-3-Clause
#include "na/net/raw/xdp_interface.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/clock.hpp"
#include "na/net/raw/xdp_program.hpp"

namespace via::na::net {
namespace {

constexpr std::uint32_t filled_frames = XdpInterface::most_ports * XdpInterface::ring_frames;
constexpr std::uint32_t sending_frames = filled_frames / 2;
constexpr std::uint32_t anchor_frames = 2;
constexpr std::uint64_t close_milliseconds = 500;

struct Registry {
    std::mutex mutex;
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::weak_ptr<XdpInterface>> interfaces;
};
Registry& registry() {
    static auto& one = *new Registry;
    return one;
}

base::Error refused(const LocalInterface& where, int error_number, const char* what) {
    if (error_number == EPERM || error_number == EACCES)
        return {base::Code::PermissionDenied,
                "no AF_XDP on " + where.name +
                    ": this process has not the rights CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (" +
                    what + " was not allowed)"};
    if (error_number == EBUSY)
        return {base::Code::OutOfResources, "no AF_XDP on " + where.name +
                                                ": another program uses it there already (" + what +
                                                ")"};
    return base::system_error(error_number, "no AF_XDP on " + where.name + ": " + what);
}

bool is_hardware(const LocalInterface& where) {
    const auto interfaces = read_interfaces();
    if (!interfaces.ok()) return false;
    return std::any_of(interfaces.value().begin(), interfaces.value().end(), [&](const auto& one) {
        return one.index == where.index && one.kind.empty();
    });
}

}  // namespace

XdpInterface::XdpInterface(const LocalInterface& where, const XdpLibrary& library)
    : where_(where), library_(library), index_used_(most_ports, false) {}

XdpInterface::~XdpInterface() {
    link_.reset();
    drop_rings();
    if (memory_ != nullptr) ::munmap(memory_, (filled_frames + sending_frames) * frame_bytes_);
}

base::Result<std::shared_ptr<XdpInterface>> XdpInterface::get(const LocalInterface& where) {
    auto library = XdpLibrary::get();
    if (!library.ok())
        return {library.error().code,
                "no AF_XDP on " + where.name + ": " + library.error().sentence};
    const std::lock_guard guard(registry().mutex);
    auto& known = registry().interfaces[{host_identity(), where.index}];
    if (auto interface = known.lock()) return interface;
    std::shared_ptr<XdpInterface> interface(new XdpInterface(where, *library.value()));
    if (auto done = interface->set_up(); !done.ok()) return std::move(done).error();
    known = interface;
    return interface;
}

/// How many queues a frame can come by. 1 where the driver does not tell: it has no choice then.
std::uint32_t XdpInterface::receive_queues() const noexcept {
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    ifreq request{};
    where_.name.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&channels);
    if (::ioctl(control_.get(), SIOCETHTOOL, &request) != 0) return 1;
    return std::max({channels.rx_count, channels.combined_count, 1U});
}

std::uint32_t XdpInterface::mtu() const noexcept {
    ifreq request{};
    where_.name.copy(request.ifr_name, IFNAMSIZ - 1);
    if (::ioctl(control_.get(), SIOCGIFMTU, &request) != 0) return 0;
    return static_cast<std::uint32_t>(request.ifr_mtu);
}

base::Result<void> XdpInterface::set_up() {
    control_.reset(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!control_.valid()) return refused(where_, errno, "opening a socket");
    const std::uint32_t queues = receive_queues();
    if (queues > 1)
        return {base::Code::NotSupported,
                "no AF_XDP on " + where_.name + ": frames can come by any of its " +
                    std::to_string(queues) +
                    " receive queues, and it would serve one (ethtool -L " + where_.name +
                    " combined 1 leaves one)"};
    if (auto done = load_program(); !done.ok()) return done;
    if (auto done = make_memory(); !done.ok()) return done;
    // Where a driver does it without copies; else in the way that leaves the others alone.
    if (is_hardware(where_) && make_anchor(true).ok()) {
        if (attach(true).ok()) {
            copies_ = false;
            return {};
        }
        drop_rings();
    }
    // A socket that was closed just now holds its queue for some milliseconds more.
    const auto deadline = base::Deadline::after_milliseconds(close_milliseconds);
    for (;;) {
        auto done = make_anchor(false);
        if (done.ok()) break;
        if (done.error().code != base::Code::OutOfResources || deadline.expired()) return done;
        const timespec pause{0, 2'000'000};
        ::nanosleep(&pause, nullptr);
    }
    return attach(false);
}

base::Result<void> XdpInterface::load_program() {
    ids_.reset(library_.map_create(BPF_MAP_TYPE_HASH, "via_ids", 4, 4, most_ports, nullptr));
    if (!ids_.valid()) return refused(where_, errno, "making a table in the kernel");
    sockets_.reset(
        library_.map_create(BPF_MAP_TYPE_XSKMAP, "via_sockets", 4, 4, most_ports, nullptr));
    if (!sockets_.valid()) return refused(where_, errno, "making a table of sockets");
    const auto program = make_xdp_program(ids_.get(), sockets_.get());
    program_.reset(library_.program_load(BPF_PROG_TYPE_XDP, "viaduct", "BSD-3-Clause",
                                         program.data(), program.size(), nullptr));
    if (!program_.valid()) return refused(where_, errno, "loading the program");
    return {};
}

base::Result<void> XdpInterface::make_memory() {
    frame_bytes_ = headroom + raw_header_bytes + where_.entry.mtu <= 2048 ? std::size_t{2048}
                                                                          : std::size_t{4096};
    const std::size_t bytes = (filled_frames + sending_frames) * frame_bytes_;
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mapped == MAP_FAILED) return base::system_error(errno, "getting memory for AF_XDP");
    memory_ = mapped;
    return {};
}

base::Result<void> XdpInterface::attach(bool native) {
    bpf_link_create_opts options{};
    options.sz = sizeof options;
    options.flags = native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
    link_.reset(
        library_.link_create(program_.get(), static_cast<int>(where_.index), BPF_XDP, &options));
    if (!link_.valid()) return refused(where_, errno, "putting the program on the interface");
    return {};
}

base::Result<void> XdpInterface::make_anchor(bool zero_copy) {
    drop_rings();
    xsk_umem_config memory{};
    memory.fill_size = filled_frames;
    memory.comp_size = sending_frames;
    memory.frame_size = static_cast<std::uint32_t>(frame_bytes_);
    int result = library_.umem_create(
        &umem_, memory_, (filled_frames + sending_frames) * frame_bytes_, &fill_, &done_, &memory);
    if (result != 0) {
        umem_ = nullptr;
        return refused(where_, -result, "registering memory");
    }
    xsk_socket_config socket{};
    socket.tx_size = anchor_frames;
    socket.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
    socket.bind_flags =
        static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | (zero_copy ? XDP_ZEROCOPY : XDP_COPY));
    result = library_.socket_create(&anchor_.handle, where_.name.c_str(), 0, umem_, nullptr,
                                    &anchor_.sent, &fill_, &done_, &socket);
    if (result != 0) {
        anchor_.handle = nullptr;
        drop_rings();
        return refused(where_, -result, "binding a socket to the queue");
    }
    free_.clear();
    for (std::uint64_t i = 0; i < sending_frames; ++i)
        free_.push_back((filled_frames + i) * frame_bytes_);
    std::uint32_t place = 0;
    const std::uint32_t room = xsk_ring_prod__reserve(&fill_, filled_frames, &place);
    for (std::uint32_t i = 0; i < room; ++i)
        *xsk_ring_prod__fill_addr(&fill_, place + i) = i * frame_bytes_;
    xsk_ring_prod__submit(&fill_, room);
    return {};
}

void XdpInterface::drop_rings() noexcept {
    if (anchor_.handle != nullptr) library_.socket_delete(std::exchange(anchor_.handle, nullptr));
    if (umem_ != nullptr) (void)library_.umem_delete(std::exchange(umem_, nullptr));
}

base::Result<std::unique_ptr<XdpInterface::Socket>> XdpInterface::add_socket(std::uint32_t id) {
    const std::lock_guard guard(registry().mutex);
    const auto unused = std::find(index_used_.begin(), index_used_.end(), false);
    if (unused == index_used_.end())
        return {base::Code::OutOfResources, "no AF_XDP on " + where_.name + ": " +
                                                std::to_string(most_ports) +
                                                " connections of this process use it already"};
    auto made = std::make_unique<Socket>();
    made->index = static_cast<std::uint32_t>(unused - index_used_.begin());
    made->id = htonl(id);
    xsk_socket_config config{};
    config.rx_size = ring_frames;
    config.tx_size = ring_frames;
    config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
    int result = library_.socket_create(&made->handle, where_.name.c_str(), 0, umem_,
                                        &made->received, &made->sent, &fill_, &done_, &config);
    if (result != 0) return refused(where_, -result, "opening a socket");
    const int descriptor = library_.socket_descriptor(made->handle);
    result = library_.map_update(sockets_.get(), &made->index, &descriptor, BPF_ANY);
    if (result == 0) result = library_.map_update(ids_.get(), &made->id, &made->index, BPF_NOEXIST);
    if (result != 0) {
        (void)library_.map_delete(sockets_.get(), &made->index);
        library_.socket_delete(made->handle);
        if (result == -EEXIST)
            return {base::Code::InvalidArgument,
                    "no AF_XDP on " + where_.name + ": the id " + std::to_string(id) + " is taken"};
        return refused(where_, -result, "entering a socket into the tables");
    }
    *unused = true;
    return made;
}

void XdpInterface::remove_socket(std::unique_ptr<Socket> socket) noexcept {
    const std::lock_guard guard(registry().mutex);
    (void)library_.map_delete(ids_.get(), &socket->id);
    (void)library_.map_delete(sockets_.get(), &socket->index);
    // What has come and was not read.
    std::uint32_t place = 0;
    while (const std::uint32_t count = xsk_ring_cons__peek(&socket->received, 16, &place)) {
        std::uint64_t frames[16];
        for (std::uint32_t i = 0; i < count; ++i)
            frames[i] = xsk_ring_cons__rx_desc(&socket->received, place + i)->addr;
        xsk_ring_cons__release(&socket->received, count);
        refill(frames, count, library_.socket_descriptor(socket->handle));
    }
    library_.socket_delete(socket->handle);
    index_used_[socket->index] = false;
}

/// Under the lock.
void XdpInterface::collect_sent() noexcept {
    std::uint32_t place = 0;
    const std::uint32_t count = xsk_ring_cons__peek(&done_, sending_frames, &place);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint64_t address = *xsk_ring_cons__comp_addr(&done_, place + i);
        free_.push_back(address - address % frame_bytes_);
    }
    if (count != 0) xsk_ring_cons__release(&done_, count);
}

std::optional<std::uint64_t> XdpInterface::take_frame() noexcept {
    const std::lock_guard guard(lock_);
    if (free_.size() < sending_frames / 2) collect_sent();
    if (free_.empty()) return std::nullopt;
    const std::uint64_t frame = free_.back();
    free_.pop_back();
    return frame;
}

void XdpInterface::give_back(std::uint64_t frame) noexcept {
    const std::lock_guard guard(lock_);
    free_.push_back(frame);
}

void XdpInterface::refill(const std::uint64_t* frames, std::uint32_t count,
                          int descriptor) noexcept {
    bool wake = false;
    {
        const std::lock_guard guard(lock_);
        std::uint32_t place = 0;
        // There is room: no more frames are about than the ring holds.
        if (xsk_ring_prod__reserve(&fill_, count, &place) != count) return;
        for (std::uint32_t i = 0; i < count; ++i)
            *xsk_ring_prod__fill_addr(&fill_, place + i) = frames[i] - frames[i] % frame_bytes_;
        xsk_ring_prod__submit(&fill_, count);
        wake = xsk_ring_prod__needs_wakeup(&fill_) != 0;
    }
    if (wake) (void)::recvfrom(descriptor, nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

}  // namespace via::na::net
