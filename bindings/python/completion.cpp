// SPDX-License-Identifier: BSD-3-Clause
#include "completion.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "error.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace via::python {

void PythonQueue::close() {
    if (users_ != 0)
        raise({VIP_ERROR_RESOURCE, "closing a completion queue while another thread waits for it"});
    queue_.reset();
}

via::CompletionQueue& PythonQueue::queue() {
    if (!queue_) raise_closed("completion queue");
    return *queue_;
}

std::optional<PythonCompletion> PythonQueue::poll() {
    auto done = queue().poll();
    if (!done) return std::nullopt;
    return to_python(std::move(*done));
}

PythonCompletion PythonQueue::wait(const Seconds& timeout) {
    via::CompletionQueue& of = queue();
    const Use use(users_);
    return to_python(need(wait_in_slices("waiting on a completion queue: nothing ended", timeout,
                                         [&](auto slice) { return of.wait(slice); })));
}

void define_completion(py::module_& module) {
    py::class_<PythonCompletion>(module, "Completion", "What became of an operation.")
        .def_readonly("operation", &PythonCompletion::operation,
                      "\"send\", \"receive\", \"rdma_write\", \"rdma_read\", or "
                      "\"remote_rdma_write\": a receive, used by the immediate data of the peer's.")
        .def_readonly("receive", &PythonCompletion::receive, "It was posted by post_receive().")
        .def_readonly("status", &PythonCompletion::status, "VIPL's status bits.")
        .def_readonly("length", &PythonCompletion::length, "How many bytes were moved.")
        .def_readonly("immediate", &PythonCompletion::immediate)
        .def_readonly("segments", &PythonCompletion::segments, "The memory it was posted with.")
        .def_property_readonly("data", &PythonCompletion::data, "The bytes that moved, copied.")
        .def_property_readonly("ok", &PythonCompletion::ok)
        .def_property_readonly(
            "error_text", [](const PythonCompletion& of) { return describe_status(of.status); })
        .def_property_readonly(
            "vi", [](const PythonCompletion& of) { return of.vi.lock(); },
            "The VI; None if it is gone.")
        .def(
            "check",
            [](const py::object& self) {
                const auto& of = self.cast<const PythonCompletion&>();
                if (!of.ok())
                    raise({VIP_DESCRIPTOR_ERROR,
                           "a " + of.operation + " of " + std::to_string(of.length) +
                               " bytes failed: " + describe_status(of.status)});
                return self;
            },
            "Itself, or an Error if the operation failed.")
        .def("__repr__", [](const PythonCompletion& of) {
            return "<viaduct.Completion: " + of.operation + " of " + std::to_string(of.length) +
                   " bytes, " + (of.ok() ? "ok" : describe_status(of.status)) + ">";
        });

    py::class_<PythonQueue, std::shared_ptr<PythonQueue>>(
        module, "CompletionQueue",
        "One place to look for the completions of many work queues. Made by "
        "Nic.create_completion_queue(), given to Nic.create_vi().")
        .def("poll", &PythonQueue::poll, "The oldest completion, or None.")
        .def(
            "wait", &PythonQueue::wait, "timeout"_a = 10.0,
            "The oldest completion; Timeout after so many seconds (None: never). Other threads run "
            "meanwhile.")
        .def(
            "resize",
            [](PythonQueue& queue, std::size_t entries) { need(queue.queue().resize(entries)); },
            "entries"_a)
        .def("close", &PythonQueue::close)
        .def("__enter__", [](const std::shared_ptr<PythonQueue>& queue) { return queue; })
        .def("__exit__", [](PythonQueue& queue, const py::args&) { queue.close(); });
}

}  // namespace via::python
