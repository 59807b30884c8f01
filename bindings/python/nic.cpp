// SPDX-License-Identifier: BSD-3-Clause
#include "nic.hpp"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <via/via.hpp>

#include "completion.hpp"
#include "error.hpp"
#include "memory.hpp"
#include "vi.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace via::python {
namespace {

class PythonNic {
  public:
    explicit PythonNic(const std::string& device)
        : device_(device), nic_(need([&] {
              const py::gil_scoped_release release;
              return Nic::open(device);
          }())) {}

    [[nodiscard]] Nic& nic() {
        if (!nic_) raise_closed("NIC");
        return *nic_;
    }
    void close() { nic_.reset(); }
    [[nodiscard]] bool closed() const noexcept { return !nic_; }
    [[nodiscard]] const std::string& device() const noexcept { return device_; }

  private:
    std::string device_;
    std::optional<Nic> nic_;
};

using NicPointer = std::shared_ptr<PythonNic>;
using TagPointer = std::shared_ptr<ProtectionTag>;
using MemoryPointer = std::shared_ptr<RegisteredMemory>;

MemoryPointer allocate(PythonNic& nic, std::size_t bytes, bool rdma_write, bool rdma_read,
                       const TagPointer& tag) {
    return std::make_shared<RegisteredMemory>(
        need(nic.nic().allocate(bytes, {rdma_write, rdma_read}, tag.get())));
}

MemoryPointer register_memory(PythonNic& nic, const py::buffer& buffer, bool rdma_write,
                              bool rdma_read, const TagPointer& tag) {
    py::buffer_info view = buffer.request(true);
    py::ssize_t dense = view.itemsize;
    for (py::ssize_t i = view.ndim; i-- > 0; dense *= view.shape[static_cast<std::size_t>(i)])
        if (view.shape[static_cast<std::size_t>(i)] > 1 &&
            view.strides[static_cast<std::size_t>(i)] != dense)
            throw py::value_error("only memory that lies in one piece can be registered");
    const std::span<std::byte> bytes(static_cast<std::byte*>(view.ptr),
                                     static_cast<std::size_t>(view.size * view.itemsize));
    Memory memory = need(nic.nic().register_memory(bytes, {rdma_write, rdma_read}, tag.get()));
    return std::make_shared<RegisteredMemory>(std::move(memory), std::move(view));
}

std::shared_ptr<PythonVi> create_vi(PythonNic& nic, Reliability reliability,
                                    std::size_t max_transfer_size, bool rdma_write, bool rdma_read,
                                    const std::shared_ptr<PythonQueue>& send_queue,
                                    const std::shared_ptr<PythonQueue>& receive_queue,
                                    const TagPointer& tag) {
    ViOptions options;
    options.reliability = reliability;
    options.max_transfer_size = max_transfer_size;
    options.rights = {rdma_write, rdma_read};
    if (send_queue) options.send_queue = &send_queue->queue();
    if (receive_queue) options.receive_queue = &receive_queue->queue();
    options.tag = tag.get();
    return PythonVi::create(nic.nic(), options);
}

Listener listen(PythonNic& nic, const std::variant<std::string, Address>& at) {
    if (const auto* address = std::get_if<Address>(&at)) return nic.nic().listen(*address);
    return nic.nic().listen(nic.nic().address(std::get<std::string>(at)));
}

py::dict attributes(PythonNic& nic) {
    const VIP_NIC_ATTRIBUTES& of = nic.nic().attributes();
    py::dict result;
    result["name"] = std::string(of.Name);
    result["max_vis"] = of.MaxVI;
    result["max_descriptors_per_queue"] = of.MaxDescriptorsPerQueue;
    result["max_segments_per_descriptor"] = of.MaxSegmentsPerDesc;
    result["max_transfer_size"] = of.MaxTransferSize;
    result["max_completion_queue_entries"] = of.MaxCQEntries;
    result["max_discriminator_bytes"] = of.MaxDiscriminatorLen;
    result["rdma_read"] = of.RDMAReadSupport != 0;
    return result;
}

}  // namespace

void define_nic(py::module_& module) {
    const py::class_<ProtectionTag, TagPointer> tag(
        module, "ProtectionTag",
        "Keeps VIs and memory apart: a VI reaches only memory of its own tag. Made by "
        "Nic.create_tag().");

    py::class_<PythonNic, NicPointer>(
        module, "Nic",
        "A NIC, by its name (\"shm0\", \"net0\", \"auto\"): where everything else is made. It "
        "belongs "
        "to the process that opened it: fork first, then open. What was made on it keeps it open "
        "after close().")
        .def(py::init<const std::string&>(), "device"_a = "shm0")
        .def_property_readonly("device", &PythonNic::device)
        .def_property_readonly("closed", &PythonNic::closed)
        .def_property_readonly("attributes", &attributes, "What it can do.")
        .def(
            "address",
            [](PythonNic& nic, const std::string& discriminator) {
                return nic.nic().address(discriminator);
            },
            "discriminator"_a, "An address of this NIC.")
        .def(
            "resolve",
            [](PythonNic& nic, const std::string& host, const std::string& discriminator,
               std::size_t index) {
                Nic& of = nic.nic();
                return need([&] {
                    const py::gil_scoped_release release;
                    return of.resolve(host, discriminator, index);
                }());
            },
            "host"_a, "discriminator"_a, "index"_a = 0,
            "An address of another host, by its name; index 1 and up for its further NICs.")
        .def("allocate", &allocate, "bytes"_a, py::kw_only(), "rdma_write"_a = false,
             "rdma_read"_a = false, "tag"_a = py::none(),
             "Memory of the kernel agent (kmem), registered; peers can map it, so it is the "
             "fastest.")
        .def("register", &register_memory, "buffer"_a, py::kw_only(), "rdma_write"_a = false,
             "rdma_read"_a = false, "tag"_a = py::none(),
             "Registers the memory of a bytearray, an array or whatever else can be written to. It "
             "is "
             "held, and can not be resized, as long as it is registered.")
        .def("create_tag",
             [](PythonNic& nic) {
                 return std::make_shared<ProtectionTag>(need(nic.nic().create_tag()));
             })
        .def(
            "create_completion_queue",
            [](PythonNic& nic, std::size_t entries) {
                return std::make_shared<PythonQueue>(
                    need(nic.nic().create_completion_queue(entries)));
            },
            "entries"_a)
        .def("create_vi", &create_vi, py::kw_only(),
             "reliability"_a = Reliability::ReliableDelivery, "max_transfer_size"_a = 0,
             "rdma_write"_a = false, "rdma_read"_a = false, "send_queue"_a = py::none(),
             "receive_queue"_a = py::none(), "tag"_a = py::none(),
             "A VI. Reliability and transfer size (0: the greatest) must be the same at both ends; "
             "`rdma_write` and `rdma_read` are what the peer may do.")
        .def("listen", &listen, "at"_a, "A listener at an address of this NIC, or at its text.")
        .def(
            "quiet", [](PythonNic& nic) { need(nic.nic().on_error({})); },
            "Errors that no completion carries, such as a peer that left, are not logged any more.")
        .def("close", &PythonNic::close)
        .def("__enter__", [](const NicPointer& nic) { return nic; })
        .def("__exit__", [](PythonNic& nic, const py::args&) { nic.close(); })
        .def("__repr__", [](const PythonNic& nic) {
            return "<viaduct.Nic " + nic.device() + (nic.closed() ? ", closed>" : ">");
        });
}

}  // namespace via::python
