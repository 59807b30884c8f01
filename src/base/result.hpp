// SPDX-License-Identifier: BSD-3-Clause
// Errors inside Viaduct: a code for programs and a sentence for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace via::base {

enum class Code : std::uint8_t {
    InvalidArgument,
    InvalidState,
    OutOfResources,
    Timeout,
    Rejected,
    NoMatch,
    NotFound,
    NotReachable,
    PermissionDenied,
    ConnectionLost,
    NotSupported,
    NameService,
    ReliabilityMismatch,
    TransferSizeMismatch,
    QosMismatch,
    ProtectionTag,
    RdmaReadRefused,
    ProtocolViolation,
    System,
};

[[nodiscard]] std::string_view code_name(Code code) noexcept;

struct Error {
    Code code;
    std::string sentence;
};

/// A failure of a system call: "<what was tried>: <strerror> (errno n)". Maps ENOMEM, EMFILE,
/// ENFILE, ENOSPC, ENOBUFS and EAGAIN (a limit of the user) to OutOfResources, EACCES and EPERM to
/// PermissionDenied, ETIMEDOUT to Timeout and everything else to System.
/// Where a limit of this process is the likely reason, it is named with its value: RLIMIT_NOFILE at
/// EMFILE, MemoryLimits at ENOMEM.
[[nodiscard]] Error system_error(int error_number, std::string_view what_was_tried);

/// "; RLIMIT_AS is 1048576 bytes", for each limit of memory that this process has; else empty.
class MemoryLimits {
  public:
    MemoryLimits() noexcept;
    [[nodiscard]] std::string_view text() const noexcept { return {text_, length_}; }

  private:
    char text_[128] = {};  // where memory is short, none is asked for
    std::size_t length_ = 0;
};

/// For a std::bad_alloc: says so, with the limits if there is memory for that.
[[nodiscard]] Error out_of_memory() noexcept;

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
    Result(Code code, std::string sentence)
        : state_(std::in_place_index<1>, Error{code, std::move(sentence)}) {}

    [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }
    [[nodiscard]] T& value() & { return std::get<0>(state_); }
    [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
    [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
    [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
    [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

  private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), ok_(false) {}
    Result(Code code, std::string sentence) : error_{code, std::move(sentence)}, ok_(false) {}

    [[nodiscard]] bool ok() const noexcept { return ok_; }
    explicit operator bool() const noexcept { return ok_; }
    [[nodiscard]] const Error& error() const& { return error_; }
    [[nodiscard]] Error&& error() && { return std::move(error_); }

  private:
    Error error_{Code::System, {}};
    bool ok_ = true;
};

}  // namespace via::base
