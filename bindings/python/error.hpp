// SPDX-License-Identifier: BSD-3-Clause
// VIPL's errors as Python's exceptions: viaduct.Error with the sentence, the code and its name;
// viaduct.Timeout, which is a TimeoutError as well, when the time was over.
#pragma once

#include <pybind11/pybind11.h>

#include <type_traits>
#include <utility>
#include <via/via.hpp>

namespace via::python {

/// Defines the exceptions in the module.
void define_errors(pybind11::module_& module);

[[noreturn]] void raise(const Error& error);
[[noreturn]] void raise_closed(const char* what);

/// The value, or the exception.
template <class T>
T need(Expected<T> result) {
    if (!result) raise(result.error());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace via::python
