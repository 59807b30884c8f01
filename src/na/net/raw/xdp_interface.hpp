// SPDX-License-Identifier: BSD-3-Clause
// What all AF_XDP ports of this process on one interface share: the program on the interface, the
// memory that frames lie in, and the lists of its free pieces. The kernel allows one such memory
// per receive queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "base/spin_lock.hpp"
#include "na/net/pairing.hpp"
#include "na/net/raw/xdp_library.hpp"

namespace via::na::net {

class XdpInterface {
  public:
    static constexpr std::uint32_t most_ports = 16;
    static constexpr std::uint32_t ring_frames = 64;
    static constexpr std::size_t headroom = 256;  ///< what the kernel leaves before a frame

    /// The one of this process for that interface; made if there is none.
    [[nodiscard]] static base::Result<std::shared_ptr<XdpInterface>> get(
        const LocalInterface& where);
    ~XdpInterface();
    XdpInterface(const XdpInterface&) = delete;
    XdpInterface& operator=(const XdpInterface&) = delete;

    struct Socket {
        xsk_socket* handle = nullptr;
        xsk_ring_cons received{};
        xsk_ring_prod sent{};
        std::uint32_t index = 0;
        std::uint32_t id = 0;
    };
    /// A socket that gets the frames with that id.
    [[nodiscard]] base::Result<std::unique_ptr<Socket>> add_socket(std::uint32_t id);
    void remove_socket(std::unique_ptr<Socket> socket) noexcept;

    /// A piece of memory for a frame to send; none: all are under way.
    [[nodiscard]] std::optional<std::uint64_t> take_frame() noexcept;
    void give_back(std::uint64_t frame) noexcept;
    /// Received frames, for the kernel to fill again.
    void refill(const std::uint64_t* frames, std::uint32_t count, int descriptor) noexcept;

    [[nodiscard]] std::byte* memory(std::uint64_t address) const noexcept {
        return static_cast<std::byte*>(memory_) + address;
    }
    [[nodiscard]] std::size_t frame_bytes() const noexcept { return frame_bytes_; }
    /// Does the kernel look at the send ring only when it is told to?
    [[nodiscard]] bool copies() const noexcept { return copies_; }
    /// The interface's MTU now; 0: it is gone.
    [[nodiscard]] std::uint32_t mtu() const noexcept;
    [[nodiscard]] const XdpLibrary& library() const noexcept { return library_; }

  private:
    XdpInterface(const LocalInterface& where, const XdpLibrary& library);
    base::Result<void> set_up();
    [[nodiscard]] std::uint32_t receive_queues() const noexcept;
    base::Result<void> load_program();
    base::Result<void> make_memory();
    base::Result<void> attach(bool native);
    base::Result<void> make_anchor(bool zero_copy);
    void drop_rings() noexcept;
    void collect_sent() noexcept;

    LocalInterface where_;
    const XdpLibrary& library_;
    base::UniqueFd control_;  ///< for questions: AF_XDP sockets answer none
    base::UniqueFd ids_;
    base::UniqueFd sockets_;
    base::UniqueFd program_;
    base::UniqueFd link_;  ///< while it is open, the program is on the interface
    void* memory_ = nullptr;
    std::size_t frame_bytes_ = 0;
    bool copies_ = true;
    xsk_umem* umem_ = nullptr;
    /// Holds the queue as long as the interface is in use; libxdp does not let the first socket go
    /// before the memory.
    Socket anchor_;

    base::SpinLock lock_;  ///< of what follows
    xsk_ring_prod fill_{};
    xsk_ring_cons done_{};
    std::vector<std::uint64_t> free_;
    std::vector<bool> index_used_;
};

}  // namespace via::na::net
