// SPDX-License-Identifier: BSD-3-Clause
// The tool's view of VIPL: owners for its handles and errors as Results. Only set-up goes through
// here; the measuring loops call VIPL directly.
#pragma once

#include <vipl.h>
#include <vipx.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "terms.hpp"

namespace via::tool {

/// The clock of the host that the program runs on, which may be a simulated one.
[[nodiscard]] inline base::Nanoseconds program_now() {
    return static_cast<base::Nanoseconds>(VipxNanoseconds());
}

/// "<what was tried>: <the library's sentence> (VIP_...)"
[[nodiscard]] base::Error vipl_error(VIP_RETURN code, std::string_view what_was_tried);
/// What the status word of a descriptor that failed says.
[[nodiscard]] std::string describe_status(std::uint32_t status);
[[nodiscard]] std::string_view asynchronous_error_name(VIP_ERROR_CODE code);

/// A VIPL network address with room for any host part and discriminator.
class Address {
  public:
    [[nodiscard]] static base::Result<Address> make(const std::uint8_t* host,
                                                    std::size_t host_bytes,
                                                    std::string_view discriminator);
    /// VIPL takes its addresses by pointers that are not const.
    [[nodiscard]] VIP_NET_ADDRESS* get() {
        return reinterpret_cast<VIP_NET_ADDRESS*>(storage_.data());
    }

  private:
    static constexpr std::size_t most_host_bytes = 64;
    static constexpr std::size_t most_discriminator_bytes = 256;
    alignas(VIP_NET_ADDRESS) std::array<std::byte, sizeof(VIP_NET_ADDRESS) + most_host_bytes +
                                                       most_discriminator_bytes> storage_{};
};

class Nic {
  public:
    [[nodiscard]] static base::Result<std::unique_ptr<Nic>> open(const std::string& device);
    ~Nic();
    Nic(const Nic&) = delete;
    Nic& operator=(const Nic&) = delete;

    [[nodiscard]] VIP_NIC_HANDLE handle() const { return handle_; }
    [[nodiscard]] VIP_PROTECTION_HANDLE tag() const { return tag_; }
    [[nodiscard]] const VIP_NIC_ATTRIBUTES& attributes() const { return attributes_; }
    [[nodiscard]] base::Result<Address> own_address(std::string_view discriminator) const;
    /// The address of a host by the name service.
    [[nodiscard]] base::Result<Address> resolve(const std::string& name,
                                                std::string_view discriminator) const;
    /// The first asynchronous error that the library told, as words; empty if none.
    [[nodiscard]] std::string asynchronous_error() const;

  private:
    Nic() = default;
    static void note_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error);
    VIP_NIC_HANDLE handle_ = nullptr;
    VIP_PROTECTION_HANDLE tag_ = nullptr;
    VIP_NIC_ATTRIBUTES attributes_{};
    std::atomic<int> first_error_{-1};
};

/// Registered memory, zeroed and touched.
class Memory {
  public:
    [[nodiscard]] static base::Result<Memory> allocate(const Nic& nic, MemoryKind kind,
                                                       std::size_t bytes, bool rdma_write,
                                                       bool rdma_read);
    Memory() = default;
    Memory(Memory&& other) noexcept { *this = std::move(other); }
    Memory& operator=(Memory&& other) noexcept;
    ~Memory() { release(); }

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] VIP_MEM_HANDLE handle() const { return handle_; }
    [[nodiscard]] std::size_t size() const { return bytes_; }

  private:
    void release();
    VIP_NIC_HANDLE nic_ = nullptr;
    MemoryKind kind_ = MemoryKind::Heap;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    VIP_MEM_HANDLE handle_ = 0;
};

class CompletionQueue {
  public:
    [[nodiscard]] static base::Result<CompletionQueue> create(const Nic& nic, std::size_t entries);
    CompletionQueue() = default;
    CompletionQueue(CompletionQueue&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)) {}
    CompletionQueue& operator=(CompletionQueue&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~CompletionQueue();
    [[nodiscard]] VIP_CQ_HANDLE handle() const { return handle_; }

  private:
    VIP_CQ_HANDLE handle_ = nullptr;
};

/// A VI. Destroying it disconnects it and takes all descriptors back.
class Vi {
  public:
    [[nodiscard]] static base::Result<Vi> create(const Nic& nic, VIP_VI_ATTRIBUTES attributes,
                                                 VIP_CQ_HANDLE send_queue,
                                                 VIP_CQ_HANDLE receive_queue);
    Vi() = default;
    Vi(Vi&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Vi& operator=(Vi&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Vi();
    [[nodiscard]] VIP_VI_HANDLE handle() const { return handle_; }

    /// Tries until somebody waits at `remote` or the deadline has passed.
    [[nodiscard]] base::Result<void> connect(Address& local, Address& remote,
                                             base::Deadline deadline);
    /// Waits for one request and takes it.
    [[nodiscard]] base::Result<void> accept(const Nic& nic, Address& local,
                                            base::Deadline deadline);

  private:
    VIP_VI_HANDLE handle_ = nullptr;
};

/// VIPL's milliseconds until the deadline, at least 1 (0 is refused by some calls).
[[nodiscard]] VIP_ULONG milliseconds_until(base::Deadline deadline);

}  // namespace via::tool
