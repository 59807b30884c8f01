// SPDX-License-Identifier: BSD-3-Clause
#include "error.hpp"

#include <string>

namespace py = pybind11;

namespace via::python {
namespace {

// Never given back: an exception may outlive the module.
PyObject* error_class = nullptr;
PyObject* timeout_class = nullptr;

PyObject* new_class(const char* name, const char* text, PyObject* bases) {
    PyObject* made = PyErr_NewExceptionWithDoc(name, text, bases, nullptr);
    if (made == nullptr) throw py::error_already_set();
    return made;
}

}  // namespace

void define_errors(py::module_& module) {
    error_class =
        new_class("viaduct.Error",
                  "What could not be done, in a sentence. `code` is VIPL's number for it, "
                  "`name` that number's name, such as \"VIP_NO_MATCH\".",
                  PyExc_RuntimeError);
    const py::tuple bases = py::make_tuple(py::handle(error_class), py::handle(PyExc_TimeoutError));
    timeout_class =
        new_class("viaduct.Timeout", "The time was over before it happened.", bases.ptr());
    module.attr("Error") = py::handle(error_class);
    module.attr("Timeout") = py::handle(timeout_class);
}

void raise(const Error& error) {
    const std::string sentence =
        error.sentence.empty() ? std::string(error.name()) : error.sentence;
    PyObject* which = error.code == VIP_TIMEOUT ? timeout_class : error_class;
    const py::object exception = py::handle(which)(sentence);
    exception.attr("code") = static_cast<int>(error.code);
    exception.attr("name") = error.name();
    PyErr_SetObject(which, exception.ptr());
    throw py::error_already_set();
}

void raise_closed(const char* what) {
    raise({VIP_INVALID_PARAMETER, std::string("using a ") + what + " that was closed"});
}

}  // namespace via::python
