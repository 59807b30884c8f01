// SPDX-License-Identifier: BSD-3-Clause
// What `via stat` and `via config` tell, for Python: by the same readers, under the same names.
#pragma once

#include <pybind11/pybind11.h>

namespace via::python {

void define_statistics(pybind11::module_& module);

}  // namespace via::python
