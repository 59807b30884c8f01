// SPDX-License-Identifier: BSD-3-Clause
// Addresses, listeners and requests for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace via::python {

void define_connection(pybind11::module_& module);

}  // namespace via::python
