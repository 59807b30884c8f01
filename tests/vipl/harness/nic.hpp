// SPDX-License-Identifier: BSD-3-Clause
// A NIC handle and the asynchronous errors that come with it.
#pragma once

#include <vipl.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "vipl/harness/conditions.hpp"

namespace via::test {

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

}  // namespace via::test
