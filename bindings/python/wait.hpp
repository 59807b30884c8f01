// SPDX-License-Identifier: BSD-3-Clause
// Waiting without the interpreter's lock. Long waits are cut into slices, so that Ctrl-C ends them.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <via/via.hpp>

namespace via::python {

/// Seconds as Python gives them; none: for ever.
using Seconds = std::optional<double>;

[[nodiscard]] inline std::chrono::milliseconds to_milliseconds(const Seconds& seconds) {
    if (!seconds) return forever;
    if (std::isnan(*seconds) || *seconds < 0)
        throw pybind11::value_error("a timeout is a number of seconds, not less than 0, or None");
    constexpr double longest = 1e9;  // 31 years
    return std::chrono::milliseconds(
        static_cast<std::int64_t>(std::ceil(std::min(*seconds, longest) * 1000)));
}

/// Counts the calls inside an object while they hold no lock of the interpreter, so that nobody
/// closes it under them.
class Use {
  public:
    explicit Use(int& count) noexcept : count_(count) { ++count_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { --count_; }

  private:
    int& count_;
};

/// `wait(timeout)` until it returns anything but VIP_TIMEOUT, or the time is over: then the
/// sentence begins with `what`.
template <class Wait>
auto wait_in_slices(const char* what, const Seconds& seconds, Wait wait)
    -> decltype(wait(forever)) {
    constexpr std::chrono::milliseconds slice{100};
    const std::chrono::milliseconds timeout = to_milliseconds(seconds);
    const detail::Deadline deadline(timeout);
    for (;;) {
        const std::chrono::milliseconds left = deadline.left();
        auto result = [&] {
            const pybind11::gil_scoped_release release;
            return wait(std::min(left, slice));
        }();
        if (result || result.error().code != VIP_TIMEOUT) return result;
        if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
        if (left <= slice)
            return Error{VIP_TIMEOUT, std::string(what) + " " + detail::within(timeout)};
    }
}

}  // namespace via::python
