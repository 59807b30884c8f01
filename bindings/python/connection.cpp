// SPDX-License-Identifier: BSD-3-Clause
#include "connection.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <via/via.hpp>

#include "error.hpp"
#include "vi.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace via::python {
namespace {

void accept(Request& request, PythonVi& vi) {
    via::Vi& with = vi.vi();
    const Use use(vi.users);
    need([&] {
        const py::gil_scoped_release release;
        return request.accept(with);
    }());
}

Request wait(Listener& listener, const Seconds& timeout) {
    return need(wait_in_slices("waiting for a request to connect: none came", timeout,
                               [&](auto slice) { return listener.wait(slice); }));
}

py::bytes host_of(const Address& address) {
    return {reinterpret_cast<const char*>(address.host().data()), address.host().size()};
}

}  // namespace

void define_connection(py::module_& module) {
    py::class_<Address>(
        module, "Address",
        "Where a VI can be reached: the NIC's address and a discriminator, which is "
        "like a port but may be any short text. Made by Nic.address() or resolve().")
        .def_property_readonly("host", &host_of)
        .def_property_readonly(
            "discriminator",
            [](const Address& address) { return py::bytes(std::string(address.discriminator())); })
        .def("__eq__", [](const Address& a, const Address& b) { return a == b; })
        .def("__repr__", [](const Address& address) {
            return "<viaduct.Address " + std::string(py::str(host_of(address).attr("hex")(":"))) +
                   " " + std::string(py::repr(py::bytes(std::string(address.discriminator())))) +
                   ">";
        });

    py::class_<Request>(module, "Request",
                        "Somebody wants to connect. Rejected when it is dropped unanswered.")
        .def_property_readonly("remote", &Request::remote)
        .def_property_readonly("attributes", &Request::attributes, "Of the VI that asks.")
        .def("accept", &accept, "vi"_a,
             "Connects an idle VI. If that fails, the request stays open for another try.")
        .def("reject", [](Request& request) { need(request.reject()); });

    py::class_<Listener>(
        module, "Listener",
        "An address at which requests are awaited. Made by Nic.listen(). There is no "
        "backlog: who asks while nobody waits here asks again.")
        .def_property_readonly("address", &Listener::address)
        .def("wait", &wait, "timeout"_a = 10.0,
             "The next request; Timeout after so many seconds (None: never). Other threads run "
             "meanwhile.")
        .def(
            "accept",
            [](Listener& listener, PythonVi& vi, const Seconds& timeout) {
                Request request = wait(listener, timeout);
                accept(request, vi);
            },
            "vi"_a, "timeout"_a = 10.0, "Waits for a request and connects the VI to it.");
}

}  // namespace via::python
