// SPDX-License-Identifier: BSD-3-Clause
// The Python module `viaduct`: the objects of include/via, and the counters.
#include <pybind11/pybind11.h>

#include "completion.hpp"
#include "connection.hpp"
#include "error.hpp"
#include "memory.hpp"
#include "nic.hpp"
#include "statistics.hpp"
#include "vi.hpp"

PYBIND11_MODULE(viaduct, module) {
    module.doc() =
        "Viaduct: messages and RDMA between processes with no system call on the way.\n\n"
        "Open a Nic, allocate or register Memory, create a Vi, connect it, post sends and "
        "receives. "
        "docs/python.md tells the story, help(viaduct.Vi) the details.";
    module.attr("__version__") = VIA_VERSION;
    via::python::define_errors(module);
    via::python::define_memory(module);
    via::python::define_vi(module);
    via::python::define_completion(module);
    via::python::define_connection(module);
    via::python::define_nic(module);
    via::python::define_statistics(module);
}
