// SPDX-License-Identifier: BSD-3-Clause
// A value or the reason why there is none. Nothing here throws: look before you dereference.
#pragma once

#include <cassert>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "via/error.hpp"

namespace via {

template <class T>
class [[nodiscard]] Expected {
  public:
    Expected(T value) noexcept(std::is_nothrow_move_constructible_v<T>)
        : state_(std::in_place_index<0>, std::move(value)) {}
    Expected(Error error) noexcept : state_(std::in_place_index<1>, std::move(error)) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    T& operator*() & noexcept { return value(); }
    const T& operator*() const& noexcept { return value(); }
    T&& operator*() && noexcept { return std::move(value()); }
    T* operator->() noexcept { return &value(); }
    const T* operator->() const noexcept { return &value(); }

    // Only where there is no value.
    const Error& error() const noexcept {
        assert(!has_value());
        return *std::get_if<1>(&state_);
    }

  private:
    T& value() noexcept {
        assert(has_value());
        return *std::get_if<0>(&state_);
    }
    const T& value() const noexcept {
        assert(has_value());
        return *std::get_if<0>(&state_);
    }

    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Expected<void> {
  public:
    Expected() noexcept = default;
    Expected(Error error) noexcept : error_(std::move(error)) {}

    bool has_value() const noexcept { return !error_.has_value(); }
    explicit operator bool() const noexcept { return has_value(); }

    const Error& error() const noexcept {
        assert(!has_value());
        return *error_;
    }

  private:
    std::optional<Error> error_;
};

namespace detail {

inline Expected<void> check(VIP_RETURN code) {
    if (code == VIP_SUCCESS) return {};
    return Error::last(code);
}

}  // namespace detail
}  // namespace via
