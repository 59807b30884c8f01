// SPDX-License-Identifier: BSD-3-Clause
// Owners of VIPL handles. Whatever was made on a NIC holds the NIC, so programs may drop their
// objects in any order. Not for direct use.
#pragma once

#include <vipl.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace via {

// For a wait without end.
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

// What a peer may do to memory, or through a VI, besides sending messages.
struct Rights {
    bool rdma_write = false;
    bool rdma_read = false;
};

namespace detail {

using ErrorFunction = std::function<void(const VIP_ERROR_DESCRIPTOR&)>;

struct NicHandle {
    VIP_NIC_HANDLE value = nullptr;
    VIP_NIC_ATTRIBUTES attributes{};
    // Old ones are kept until the NIC is closed, because one may still be running.
    std::vector<std::unique_ptr<ErrorFunction>> error_functions;

    NicHandle() = default;
    NicHandle(const NicHandle&) = delete;
    NicHandle& operator=(const NicHandle&) = delete;
    ~NicHandle() {
        if (value != nullptr) VipCloseNic(value);
    }
};

struct TagHandle {
    std::shared_ptr<NicHandle> nic;
    VIP_PROTECTION_HANDLE value;

    TagHandle(std::shared_ptr<NicHandle> owner, VIP_PROTECTION_HANDLE tag)
        : nic(std::move(owner)), value(tag) {}
    TagHandle(const TagHandle&) = delete;
    TagHandle& operator=(const TagHandle&) = delete;
    ~TagHandle() { VipDestroyPtag(nic->value, value); }
};

struct QueueHandle {
    std::shared_ptr<NicHandle> nic;
    VIP_CQ_HANDLE value;

    QueueHandle(std::shared_ptr<NicHandle> owner, VIP_CQ_HANDLE queue)
        : nic(std::move(owner)), value(queue) {}
    QueueHandle(const QueueHandle&) = delete;
    QueueHandle& operator=(const QueueHandle&) = delete;
    ~QueueHandle() { VipDestroyCQ(value); }
};

inline VIP_ULONG milliseconds(std::chrono::milliseconds timeout) noexcept {
    if (timeout == forever) return VIP_INFINITE;
    return timeout.count() < 0 ? 0 : static_cast<VIP_ULONG>(timeout.count());
}

// The end of a wait that is made of several calls.
class Deadline {
  public:
    explicit Deadline(std::chrono::milliseconds timeout)
        : endless_(timeout == forever),
          end_(Clock::now() + (endless_ ? Clock::duration{} : timeout)) {}

    // What is left, rounded up, so that zero means that the time is over.
    std::chrono::milliseconds left() const {
        if (endless_) return forever;
        const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
        return std::max(rest, std::chrono::milliseconds{0});
    }

  private:
    using Clock = std::chrono::steady_clock;
    bool endless_;
    Clock::time_point end_;
};

// "within 20 ms" for a sentence about a wait that was in vain.
inline std::string within(std::chrono::milliseconds timeout) {
    return "within " + std::to_string(timeout.count()) + " ms";
}

inline VIP_BOOLEAN boolean(bool value) noexcept {
    return value ? VIP_TRUE : VIP_FALSE;
}

}  // namespace detail
}  // namespace via
