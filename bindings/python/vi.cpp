// SPDX-License-Identifier: BSD-3-Clause
#include "vi.hpp"

#include <pybind11/stl.h>

#include <span>
#include <unordered_map>
#include <utility>
#include <variant>

#include "error.hpp"

namespace py = pybind11;
using namespace pybind11::literals;

namespace via::python {
namespace {

using ViPointer = std::shared_ptr<PythonVi>;

constexpr std::size_t first_descriptors = 16;
constexpr std::size_t descriptor_payload = 64;  // as small as there are

/// The memory of the operations under way, by their descriptors. Never taken down: objects may go
/// after the module.
std::unordered_map<const detail::Slot*, SegmentList>& under_way() {
    static auto* const all = new std::unordered_map<const detail::Slot*, SegmentList>;
    return *all;
}

std::unordered_map<VIP_VI_HANDLE, std::weak_ptr<PythonVi>>& all_vis() {
    static auto* const all = new std::unordered_map<VIP_VI_HANDLE, std::weak_ptr<PythonVi>>;
    return *all;
}

const char* operation_name(Operation operation) {
    switch (operation) {
        case Operation::Send:
            return "send";
        case Operation::Receive:
            return "receive";
        case Operation::RdmaWrite:
            return "rdma_write";
        case Operation::RemoteRdmaWrite:
            return "remote_rdma_write";
        case Operation::RdmaRead:
            return "rdma_read";
    }
    return "?";
}

const char* state_name(State state) {
    switch (state) {
        case State::Idle:
            return "idle";
        case State::Connected:
            return "connected";
        case State::ConnectPending:
            return "pending";
        case State::Error:
            return "error";
    }
    return "?";
}

}  // namespace

py::bytes PythonCompletion::data() const {
    std::string bytes;
    // An RDMA write of the peer leaves the receive that it used as it was.
    std::size_t left = operation == "remote_rdma_write" ? 0 : length;
    for (const MemorySegment& segment : segments) {
        const MemorySegment part = segment.cut(left);
        bytes.append(reinterpret_cast<const char*>(part.data()), part.length);
        left -= part.length;
    }
    return bytes;
}

PythonCompletion to_python(via::Completion completion) {
    PythonCompletion result;
    result.operation = operation_name(completion.operation);
    result.receive = completion.receive;
    result.status = completion.status;
    result.length = completion.length;
    result.immediate = completion.immediate;
    if (const auto vi = all_vis().find(completion.vi); vi != all_vis().end())
        result.vi = vi->second;
    if (auto posted = under_way().extract(completion.buffer.slot()); !posted.empty())
        result.segments = std::move(posted.mapped());
    return result;
}

PythonVi::PythonVi(std::vector<std::uint8_t> host, via::BufferPool pool, via::Vi vi)
    : host_(std::move(host)), vi_(std::move(vi)) {
    pools_.push_back(std::move(pool));
}

ViPointer PythonVi::create(const via::Nic& nic, const via::ViOptions& options) {
    const VIP_NIC_ATTRIBUTES& attributes = nic.attributes();
    via::BufferPool pool =
        need(nic.create_pool(first_descriptors, descriptor_payload, options.tag));
    ViPointer made(new PythonVi(
        {attributes.LocalNicAddress, attributes.LocalNicAddress + attributes.NicAddressLen},
        std::move(pool), need(nic.create_vi(options))));
    all_vis()[made->vi_->handle()] = made;
    return made;
}

PythonVi::~PythonVi() {
    if (vi_) close();
}

void PythonVi::close() {
    if (!vi_) return;
    if (users != 0)
        raise({VIP_ERROR_RESOURCE,
               "closing a VI while another thread waits for it: disconnect it first"});
    all_vis().erase(vi_->handle());
    // As its destructor would, but what was posted lets go of its memory.
    [[maybe_unused]] const auto disconnected = vi_->disconnect();
    while (poll_send()) {
    }
    while (poll_receive()) {
    }
    vi_.reset();
}

via::Vi& PythonVi::vi() {
    if (!vi_) raise_closed("VI");
    return *vi_;
}

via::Buffer PythonVi::take_descriptor() {
    for (via::BufferPool& pool : pools_)
        if (via::Buffer buffer = pool.take()) return buffer;
    const std::size_t count = 2 * pools_.back().size();
    pools_.push_back(
        need(via::BufferPool::create(need(via::Memory::allocate(pools_.back().memory().tag_handle(),
                                                                count * descriptor_payload, {})),
                                     descriptor_payload)));
    return pools_.back().take();
}

template <class Post>
void PythonVi::post(const py::handle& data, Post post) {
    via::Vi& to = vi();
    SegmentList list = segments_of(data);
    std::vector<via::Segment> pieces;
    pieces.reserve(list.size());
    for (const MemorySegment& segment : list)
        pieces.push_back(segment.segment());
    via::Buffer descriptor = take_descriptor();
    const detail::Slot* slot = descriptor.slot();
    need(post(to, std::move(descriptor), via::Segments(std::span<const via::Segment>(pieces))));
    under_way().insert_or_assign(slot, std::move(list));
}

void PythonVi::send(const py::handle& data, std::optional<std::uint32_t> immediate, bool fence) {
    post(data, [&](via::Vi& to, via::Buffer descriptor, via::Segments pieces) {
        return to.send(std::move(descriptor), pieces, {immediate, fence});
    });
}

void PythonVi::post_receive(const py::handle& data) {
    post(data, [](via::Vi& to, via::Buffer descriptor, via::Segments pieces) {
        return to.post_receive(std::move(descriptor), pieces);
    });
}

void PythonVi::rdma_write(const via::RemoteSegment& remote, const py::handle& data,
                          std::optional<std::uint32_t> immediate, bool fence) {
    post(data, [&](via::Vi& to, via::Buffer descriptor, via::Segments pieces) {
        return to.rdma_write(std::move(descriptor), remote, pieces, {immediate, fence});
    });
}

void PythonVi::rdma_read(const via::RemoteSegment& remote, const py::handle& data, bool fence) {
    post(data, [&](via::Vi& to, via::Buffer descriptor, via::Segments pieces) {
        return to.rdma_read(std::move(descriptor), remote, pieces, {std::nullopt, fence});
    });
}

std::optional<PythonCompletion> PythonVi::poll_send() {
    auto done = vi().poll_send();
    if (!done) return std::nullopt;
    return to_python(std::move(*done));
}

std::optional<PythonCompletion> PythonVi::poll_receive() {
    auto done = vi().poll_receive();
    if (!done) return std::nullopt;
    return to_python(std::move(*done));
}

PythonCompletion PythonVi::wait_send(const Seconds& timeout) {
    via::Vi& of = vi();
    const Use use(users);
    return to_python(need(wait_in_slices("waiting for a send: none ended", timeout,
                                         [&](auto slice) { return of.wait_send(slice); })));
}

PythonCompletion PythonVi::wait_receive(const Seconds& timeout) {
    via::Vi& of = vi();
    const Use use(users);
    return to_python(need(wait_in_slices("waiting for a receive: none ended", timeout,
                                         [&](auto slice) { return of.wait_receive(slice); })));
}

via::Address PythonVi::address(const std::string& discriminator) const {
    return {host_, discriminator};
}

namespace {

via::ViAttributes connect(PythonVi& vi, const std::variant<std::string, via::Address>& to,
                          const Seconds& timeout, const std::optional<via::Address>& local) {
    via::Vi& of = vi.vi();
    const via::Address remote = std::holds_alternative<via::Address>(to)
                                    ? std::get<via::Address>(to)
                                    : vi.address(std::get<std::string>(to));
    const via::Address own = local.value_or(vi.address(""));
    const Use use(vi.users);
    return need([&] {
        const py::gil_scoped_release release;
        return of.connect(own, remote, to_milliseconds(timeout));
    }());
}

via::ViAttributes connect_peer(PythonVi& vi, const via::Address& local, const via::Address& remote,
                               const Seconds& timeout) {
    via::Vi& of = vi.vi();
    const Use use(vi.users);
    return need([&] {
        const py::gil_scoped_release release;
        return of.connect_peer(local, remote, to_milliseconds(timeout));
    }());
}

}  // namespace

void define_vi(py::module_& module) {
    py::enum_<Reliability>(module, "Reliability",
                           "When a send is done, and what its failure means.")
        .value("UNRELIABLE", Reliability::Unreliable)
        .value("DELIVERY", Reliability::ReliableDelivery, "done when it will be delivered")
        .value("RECEPTION", Reliability::ReliableReception, "done when it was received");

    py::class_<ViAttributes>(module, "ViAttributes", "What one end of a connection was made with.")
        .def_readonly("reliability", &ViAttributes::reliability)
        .def_readonly("max_transfer_size", &ViAttributes::max_transfer_size)
        .def_property_readonly("rdma_write",
                               [](const ViAttributes& of) { return of.rights.rdma_write; })
        .def_property_readonly("rdma_read",
                               [](const ViAttributes& of) { return of.rights.rdma_read; });

    py::class_<PythonVi, ViPointer>(
        module, "Vi",
        "A virtual interface: one end of a connection, with a queue for sends and one for "
        "receives. "
        "Made by Nic.create_vi(). Operations take a Memory, a slice of one, or a list of these; "
        "they "
        "are posted at once and done later, in order: ask with poll_...() or wait_...().")
        .def("connect", &connect, "remote"_a, "timeout"_a = 10.0, py::kw_only(),
             "local"_a = py::none(),
             "Asks who listens at the address (a text: on this NIC) until it is accepted or "
             "rejected, "
             "or the time is over. Returns the attributes of the other end.")
        .def("connect_peer", &connect_peer, "local"_a, "remote"_a, "timeout"_a = 10.0,
             "Both ends call this, in any order, with the addresses crosswise.")
        .def(
            "disconnect", [](PythonVi& vi) { need(vi.vi().disconnect()); },
            "Operations under way come back as failed completions; it can be connected again.")
        .def("close", &PythonVi::close, "Disconnects; what is under way is forgotten.")
        .def_property_readonly("closed", &PythonVi::closed)
        .def_property_readonly(
            "state", [](PythonVi& vi) { return state_name(vi.vi().state()); },
            "\"idle\", \"pending\", \"connected\" or \"error\".")
        .def_property_readonly("connected", [](PythonVi& vi) { return vi.vi().connected(); })
        .def_property_readonly("attributes",
                               [](PythonVi& vi) { return need(vi.vi().attributes()); })
        .def("send", &PythonVi::send, "data"_a, py::kw_only(), "immediate"_a = py::none(),
             "fence"_a = false,
             "Posts a send. `immediate`: 32 bits beside the data. `fence`: only after all earlier "
             "RDMA "
             "reads. The peer must have a receive posted.")
        .def("post_receive", &PythonVi::post_receive, "data"_a,
             "Posts memory for the next message that no receive waits for yet.")
        .def("rdma_write", &PythonVi::rdma_write, "to"_a, "data"_a, py::kw_only(),
             "immediate"_a = py::none(), "fence"_a = false,
             "Posts a write into the peer's memory. With `immediate` it uses a receive there.")
        .def("rdma_read", &PythonVi::rdma_read, "from_"_a, "data"_a, py::kw_only(),
             "fence"_a = false, "Posts a read of the peer's memory.")
        .def("poll_send", &PythonVi::poll_send, "The next send that is done, or None.")
        .def("poll_receive", &PythonVi::poll_receive, "The next receive that is done, or None.")
        .def("wait_send", &PythonVi::wait_send, "timeout"_a = 10.0,
             "The next send that is done; Timeout after so many seconds (None: never). Other "
             "threads "
             "run meanwhile.")
        .def("wait_receive", &PythonVi::wait_receive, "timeout"_a = 10.0,
             "The next receive that is done; as wait_send().")
        .def("__enter__", [](const ViPointer& vi) { return vi; })
        .def("__exit__", [](PythonVi& vi, const py::args&) { vi.close(); })
        .def("__repr__", [](PythonVi& vi) {
            return std::string("<viaduct.Vi ") +
                   (vi.closed() ? "closed" : state_name(vi.vi().state())) + ">";
        });
}

}  // namespace via::python
