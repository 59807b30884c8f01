// SPDX-License-Identifier: BSD-3-Clause
#include "memory.hpp"

#include <pybind11/stl.h>

#include <cstring>
#include <string>
#include <utility>

#include "error.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace via::python {
namespace {

using MemoryPointer = std::shared_ptr<RegisteredMemory>;

py::buffer_info buffer_of(std::byte* data, std::size_t size) {
    return {data,
            1,
            py::format_descriptor<std::uint8_t>::format(),
            1,
            {static_cast<py::ssize_t>(size)},
            {py::ssize_t{1}}};
}

/// Where in `size` bytes the slice lies; whole and in order only.
std::pair<std::size_t, std::size_t> place_of(const py::slice& slice, std::size_t size) {
    std::size_t start = 0, stop = 0, step = 0, length = 0;
    if (!slice.compute(size, &start, &stop, &step, &length)) throw py::error_already_set();
    if (step != 1 && length > 1)
        throw py::value_error("a segment is one piece of memory: slices of it have no step");
    return {length == 0 ? std::min(start, size) : start, length};
}

void copy_in(const MemorySegment& to, const py::buffer& from) {
    const py::buffer_info given = from.request();
    if (given.ndim != 1 || (given.size > 1 && given.strides[0] != given.itemsize))
        throw py::value_error("only bytes that lie behind each other can be copied in");
    const auto bytes = static_cast<std::size_t>(given.size * given.itemsize);
    if (bytes != to.length)
        throw py::value_error("copying " + std::to_string(bytes) + " bytes into " +
                              std::to_string(to.length) + ": both must be as long");
    if (bytes != 0) std::memmove(to.data(), given.ptr, bytes);
}

py::bytes copy_out(const MemorySegment& from) {
    return {reinterpret_cast<const char*>(from.data()), from.length};
}

MemorySegment whole(const MemoryPointer& memory) {
    return {memory, 0, memory->size()};
}

std::string describe(const MemoryPointer& memory) {
    return "<viaduct.Memory of " + std::to_string(memory->size()) + " bytes, " +
           (memory->shareable() ? "kmem" : "registered") + ">";
}

void define_remote_segment(py::module_& module) {
    static_assert(sizeof(RemoteSegment) == 16);
    py::class_<RemoteSegment>(
        module, "RemoteSegment",
        "A place in the peer's memory, for RDMA. Its owner makes it with Memory.remote() and sends "
        "bytes(it) to whoever may use it, who makes it again with RemoteSegment.from_bytes().")
        .def(py::init([](std::uint64_t address, std::uint32_t handle, std::uint32_t length) {
                 return RemoteSegment{address, handle, length};
             }),
             "address"_a, "handle"_a, "length"_a)
        .def_readonly("address", &RemoteSegment::address)
        .def_readonly("handle", &RemoteSegment::handle)
        .def_readonly("length", &RemoteSegment::length)
        .def("after", &RemoteSegment::after, "bytes"_a, "The part that begins so many bytes later.")
        .def("__bytes__",
             [](const RemoteSegment& remote) {
                 return py::bytes(reinterpret_cast<const char*>(&remote), sizeof remote);
             })
        .def("__len__", [](const RemoteSegment& remote) { return remote.length; })
        .def("__eq__",
             [](const RemoteSegment& a, const RemoteSegment& b) {
                 return a.address == b.address && a.handle == b.handle && a.length == b.length;
             })
        .def("__repr__",
             [](const RemoteSegment& remote) {
                 return "<viaduct.RemoteSegment of " + std::to_string(remote.length) + " bytes>";
             })
        .def_static(
            "from_bytes",
            [](const py::bytes& given) {
                const std::string bytes = given;
                RemoteSegment remote;
                if (bytes.size() != sizeof remote)
                    throw py::value_error("a remote segment is made of " +
                                          std::to_string(sizeof remote) + " bytes, not of " +
                                          std::to_string(bytes.size()));
                std::memcpy(&remote, bytes.data(), sizeof remote);
                return remote;
            },
            "bytes"_a);
}

}  // namespace

SegmentList segments_of(const py::handle& given) {
    if (py::isinstance<RegisteredMemory>(given)) return {whole(given.cast<MemoryPointer>())};
    if (py::isinstance<MemorySegment>(given)) return {given.cast<MemorySegment>()};
    if (py::isinstance<py::list>(given) || py::isinstance<py::tuple>(given)) {
        SegmentList list;
        for (const py::handle one : py::reinterpret_borrow<py::sequence>(given)) {
            if (py::isinstance<py::list>(one) || py::isinstance<py::tuple>(one))
                throw py::type_error(
                    "the memory of an operation is a list of segments, not of lists");
            for (MemorySegment& segment : segments_of(one))
                list.push_back(std::move(segment));
        }
        return list;
    }
    throw py::type_error(
        "the memory of an operation must be registered: give a viaduct.Memory, a slice of one, or "
        "a "
        "list of such, not a " +
        std::string(py::str(py::type::of(given).attr("__name__"))));
}

void define_memory(py::module_& module) {
    py::class_<RegisteredMemory, MemoryPointer>(
        module, "Memory", py::buffer_protocol(),
        "Registered memory: only this can be sent from, received into or reached by RDMA. "
        "memoryview(memory) and numpy.frombuffer(memory) show it without a copy, memory[a:b] is a "
        "Segment for an operation, memory[a:b] = data copies in. It is given back when nobody has "
        "it "
        "any more; operations that are under way hold it.")
        .def_buffer([](RegisteredMemory& memory) {
            return buffer_of(memory.memory().data(), memory.size());
        })
        .def("__len__", &RegisteredMemory::size)
        .def("__getitem__",
             [](const MemoryPointer& memory, const py::slice& slice) {
                 const auto [offset, length] = place_of(slice, memory->size());
                 return MemorySegment{memory, offset, length};
             })
        .def("__setitem__",
             [](const MemoryPointer& memory, const py::slice& slice, const py::buffer& from) {
                 const auto [offset, length] = place_of(slice, memory->size());
                 copy_in({memory, offset, length}, from);
             })
        .def("__bytes__", [](const MemoryPointer& memory) { return copy_out(whole(memory)); })
        .def("__repr__", &describe)
        .def_property_readonly("shareable", &RegisteredMemory::shareable,
                               "True: memory of the kernel agent (kmem), which peers can map.")
        .def_property_readonly(
            "handle", [](const RegisteredMemory& memory) { return memory.memory().handle(); },
            "VIPL's handle of the registration.")
        .def(
            "remote",
            [](const RegisteredMemory& memory, std::size_t offset,
               std::optional<std::size_t> length) {
                if (offset > memory.size() || (length && *length > memory.size() - offset))
                    throw py::value_error("that part is not inside the memory of " +
                                          std::to_string(memory.size()) + " bytes");
                return memory.memory().remote_segment(offset,
                                                      length.value_or(memory.size() - offset));
            },
            "offset"_a = 0, "length"_a = py::none(),
            "A part of it, or all, for a peer to write to or read from by RDMA.")
        .def(
            "set_rights",
            [](RegisteredMemory& memory, bool rdma_write, bool rdma_read) {
                need(memory.memory().set_rights({rdma_write, rdma_read}));
            },
            py::kw_only(), "rdma_write"_a = false, "rdma_read"_a = false,
            "Changes what peers may do to it by RDMA.");

    py::class_<MemorySegment>(module, "Segment", py::buffer_protocol(),
                              "A part of registered memory, made by a slice of a Memory.")
        .def_buffer(
            [](MemorySegment& segment) { return buffer_of(segment.data(), segment.length); })
        .def("__len__", [](const MemorySegment& segment) { return segment.length; })
        .def("__getitem__",
             [](const MemorySegment& segment, const py::slice& slice) {
                 const auto [offset, length] = place_of(slice, segment.length);
                 return MemorySegment{segment.memory, segment.offset + offset, length};
             })
        .def("__setitem__",
             [](const MemorySegment& segment, const py::slice& slice, const py::buffer& from) {
                 const auto [offset, length] = place_of(slice, segment.length);
                 copy_in({segment.memory, segment.offset + offset, length}, from);
             })
        .def("__bytes__", &copy_out)
        .def("__repr__",
             [](const MemorySegment& segment) {
                 return "<viaduct.Segment of " + std::to_string(segment.length) + " bytes at " +
                        std::to_string(segment.offset) + ">";
             })
        .def_readonly("memory", &MemorySegment::memory)
        .def_readonly("offset", &MemorySegment::offset);
    define_remote_segment(module);
}

}  // namespace via::python
