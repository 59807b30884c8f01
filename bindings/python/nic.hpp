// SPDX-License-Identifier: BSD-3-Clause
// The NIC for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace via::python {

void define_nic(pybind11::module_& module);

}  // namespace via::python
