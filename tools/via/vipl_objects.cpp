// SPDX-License-Identifier: BSD-3-Clause
#include "vipl_objects.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "heap.hpp"

namespace via::tool {
namespace {

base::Code code_of(VIP_RETURN code) {
    switch (code) {
        case VIP_TIMEOUT:
            return base::Code::Timeout;
        case VIP_NO_MATCH:
            return base::Code::NoMatch;
        case VIP_NOT_REACHABLE:
            return base::Code::NotReachable;
        case VIP_REJECT:
            return base::Code::Rejected;
        case VIP_ERROR_RESOURCE:
            return base::Code::OutOfResources;
        case VIP_ERROR_NOT_SUPPORTED:
            return base::Code::NotSupported;
        case VIP_INVALID_PARAMETER:
            return base::Code::InvalidArgument;
        default:
            return base::Code::System;
    }
}

void sleep_microseconds(long microseconds) {
    const timespec span{0, microseconds * 1000};
    nanosleep(&span, nullptr);
}

}  // namespace

base::Error vipl_error(VIP_RETURN code, std::string_view what_was_tried) {
    const char* sentence = VipxErrorText();
    if (*sentence == '\0') sentence = "no further word from the library";
    return {code_of(code),
            fmt::format("{}: {} ({})", what_was_tried, sentence, VipxReturnName(code))};
}

std::string describe_status(std::uint32_t status) {
    static constexpr std::array<std::pair<std::uint32_t, const char*>, 8> bits{
        {{VIP_STATUS_FORMAT_ERROR, "format error"},
         {VIP_STATUS_PROTECTION_ERROR, "protection error"},
         {VIP_STATUS_LENGTH_ERROR, "length error"},
         {VIP_STATUS_PARTIAL_ERROR, "partial"},
         {VIP_STATUS_DESC_FLUSHED_ERROR, "flushed because the connection ended"},
         {VIP_STATUS_TRANSPORT_ERROR, "transport error"},
         {VIP_STATUS_RDMA_PROT_ERROR, "RDMA protection error"},
         {VIP_STATUS_REMOTE_DESC_ERROR, "no fitting receive at the other side"}}};
    std::string text;
    for (const auto& [bit, name] : bits) {
        if ((status & bit) == 0) continue;
        if (!text.empty()) text += ", ";
        text += name;
    }
    return text.empty() ? fmt::format("status {:#x}", status) : text;
}

std::string_view asynchronous_error_name(VIP_ERROR_CODE code) {
    static constexpr std::array<const char*, 11> names{"a descriptor could not be posted",
                                                       "the connection was lost",
                                                       "a message found no receive posted",
                                                       "too many descriptors were posted",
                                                       "an incoming RDMA write was refused",
                                                       "an incoming RDMA write was corrupt",
                                                       "an incoming RDMA write broke off",
                                                       "an incoming RDMA read was refused",
                                                       "a completion could not be written",
                                                       "RDMA failed on the way",
                                                       "the NIC is unusable"};
    const auto index = static_cast<std::size_t>(code);
    return index < names.size() ? names[index] : "an unknown asynchronous error came";
}

VIP_ULONG milliseconds_until(base::Deadline deadline) {
    if (deadline.is_never()) return VIP_INFINITE;
    return static_cast<VIP_ULONG>(std::max<base::Nanoseconds>(1, deadline.remaining() / 1'000'000));
}

base::Result<Address> Address::make(const std::uint8_t* host, std::size_t host_bytes,
                                    std::string_view discriminator) {
    if (host_bytes > most_host_bytes || discriminator.size() > most_discriminator_bytes)
        return {base::Code::InvalidArgument,
                fmt::format("an address of {} bytes with a discriminator of {} bytes is too long",
                            host_bytes, discriminator.size())};
    Address address;
    VIP_NET_ADDRESS* net = address.get();
    net->HostAddressLen = static_cast<VIP_UINT16>(host_bytes);
    net->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
    std::byte* bytes = address.storage_.data() + offsetof(VIP_NET_ADDRESS, HostAddress);
    std::memcpy(bytes, host, host_bytes);
    std::memcpy(bytes + host_bytes, discriminator.data(), discriminator.size());
    return address;
}

base::Result<std::unique_ptr<Nic>> Nic::open(const std::string& device) {
    std::unique_ptr<Nic> nic(new Nic);
    if (const auto code = VipOpenNic(device.c_str(), &nic->handle_); code != VIP_SUCCESS) {
        nic->handle_ = nullptr;
        return vipl_error(code, fmt::format("opening the device '{}'", device));
    }
    if (const auto code = VipErrorCallback(nic->handle_, nic.get(), &Nic::note_error);
        code != VIP_SUCCESS)
        return vipl_error(code, "asking for asynchronous errors");
    if (const auto code = VipQueryNic(nic->handle_, &nic->attributes_); code != VIP_SUCCESS)
        return vipl_error(code, "asking the device for its attributes");
    if (const auto code = VipCreatePtag(nic->handle_, &nic->tag_); code != VIP_SUCCESS) {
        nic->tag_ = nullptr;
        return vipl_error(code, "creating a protection tag");
    }
    return nic;
}

Nic::~Nic() {
    if (handle_ == nullptr) return;
    if (tag_ != nullptr) VipDestroyPtag(handle_, tag_);
    VipCloseNic(handle_);
}

void Nic::note_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    int none = -1;
    static_cast<Nic*>(context)->first_error_.compare_exchange_strong(
        none, static_cast<int>(error->ErrorCode));
}

std::string Nic::asynchronous_error() const {
    const int code = first_error_.load();
    return code < 0 ? std::string()
                    : std::string(asynchronous_error_name(static_cast<VIP_ERROR_CODE>(code)));
}

base::Result<Address> Nic::own_address(std::string_view discriminator) const {
    return Address::make(attributes_.LocalNicAddress, attributes_.NicAddressLen, discriminator);
}

base::Result<Address> Nic::resolve(const std::string& name, std::string_view discriminator) const {
    if (const auto code = VipNSInit(handle_, nullptr); code != VIP_SUCCESS)
        return vipl_error(code, "starting the name service");
    Address found;
    std::string changeable = name;
    const auto code = VipNSGetHostByName(handle_, changeable.data(), found.get(), 0);
    base::Error error{base::Code::System, {}};
    if (code != VIP_SUCCESS)
        error = vipl_error(code, fmt::format("looking up the host '{}'", name));
    VipNSShutdown(handle_);
    if (code != VIP_SUCCESS) return error;
    return Address::make(found.get()->HostAddress, found.get()->HostAddressLen, discriminator);
}

base::Result<Memory> Memory::allocate(const Nic& nic, MemoryKind kind, std::size_t bytes,
                                      bool rdma_write, bool rdma_read) {
    Memory memory;
    memory.kind_ = kind;
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = nic.tag();
    attributes.EnableRdmaWrite = rdma_write ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead = rdma_read ? VIP_TRUE : VIP_FALSE;
    if (kind == MemoryKind::Heap) {
        HeapMemory heap = HeapMemory::take(bytes);
        if (heap.data == nullptr)
            return base::system_error(ENOMEM, fmt::format("allocating {} bytes", heap.bytes));
        const auto code =
            VipRegisterMem(nic.handle(), heap.data.get(), heap.bytes, &attributes, &memory.handle_);
        if (code != VIP_SUCCESS)
            return vipl_error(code, fmt::format("registering {} bytes of memory", heap.bytes));
        memory.bytes_ = heap.bytes;
        memory.data_ = heap.data.release();
    } else {
        constexpr std::size_t page = 4096;
        memory.bytes_ = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
        VIP_PVOID data = nullptr;
        const auto code =
            VipxAllocMem(nic.handle(), memory.bytes_, &attributes, &data, &memory.handle_);
        if (code != VIP_SUCCESS)
            return vipl_error(code, fmt::format("allocating {} bytes of kmem", memory.bytes_));
        memory.data_ = static_cast<std::byte*>(data);
        std::memset(data, 0, memory.bytes_);
    }
    memory.nic_ = nic.handle();
    return memory;
}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(nic_, other.nic_);
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(handle_, other.handle_);
    return *this;
}

void Memory::release() {
    if (data_ == nullptr) return;
    if (kind_ == MemoryKind::Heap) {
        VipDeregisterMem(nic_, data_, handle_);
        std::free(data_);
    } else {
        VipxFreeMem(nic_, data_, handle_);
    }
    data_ = nullptr;
}

base::Result<CompletionQueue> CompletionQueue::create(const Nic& nic, std::size_t entries) {
    CompletionQueue queue;
    if (const auto code = VipCreateCQ(nic.handle(), entries, &queue.handle_); code != VIP_SUCCESS) {
        queue.handle_ = nullptr;
        return vipl_error(code, fmt::format("creating a completion queue of {} entries", entries));
    }
    return queue;
}

CompletionQueue::~CompletionQueue() {
    if (handle_ != nullptr) VipDestroyCQ(handle_);
}

base::Result<Vi> Vi::create(const Nic& nic, VIP_VI_ATTRIBUTES attributes, VIP_CQ_HANDLE send_queue,
                            VIP_CQ_HANDLE receive_queue) {
    Vi vi;
    attributes.Ptag = nic.tag();
    const auto code =
        VipCreateVi(nic.handle(), &attributes, send_queue, receive_queue, &vi.handle_);
    if (code != VIP_SUCCESS) {
        vi.handle_ = nullptr;
        return vipl_error(code, "creating a VI");
    }
    return vi;
}

Vi::~Vi() {
    if (handle_ == nullptr) return;
    VipDisconnect(handle_);
    // VIPL: a queue is empty when Done gives an error and no descriptor.
    VIP_DESCRIPTOR* descriptor = nullptr;
    for (VIP_RETURN code = VIP_SUCCESS; code != VIP_NOT_DONE && code != VIP_INVALID_PARAMETER;) {
        code = VipSendDone(handle_, &descriptor);
        if (descriptor == nullptr) break;
    }
    for (VIP_RETURN code = VIP_SUCCESS; code != VIP_NOT_DONE && code != VIP_INVALID_PARAMETER;) {
        code = VipRecvDone(handle_, &descriptor);
        if (descriptor == nullptr) break;
    }
    VipDestroyVi(handle_);
}

base::Result<void> Vi::connect(Address& local, Address& remote, base::Deadline deadline) {
    VIP_VI_ATTRIBUTES remote_attributes{};
    // VIPL keeps no backlog: a request that meets nobody is refused at once, so come again.
    for (long pause = 20;; pause = std::min(pause * 2, 2000L)) {
        const auto code = VipConnectRequest(handle_, local.get(), remote.get(),
                                            milliseconds_until(deadline), &remote_attributes);
        if (code == VIP_SUCCESS) return {};
        if (code != VIP_NO_MATCH || deadline.expired())
            return vipl_error(code, "connecting to the other side");
        sleep_microseconds(pause);
    }
}

base::Result<void> Vi::accept(const Nic& nic, Address& local, base::Deadline deadline) {
    Address remote;
    VIP_VI_ATTRIBUTES remote_attributes{};
    VIP_CONN_HANDLE request = nullptr;
    auto code = VipConnectWait(nic.handle(), local.get(), milliseconds_until(deadline),
                               remote.get(), &remote_attributes, &request);
    if (code != VIP_SUCCESS) return vipl_error(code, "waiting for the other side to connect");
    code = VipConnectAccept(request, handle_);
    if (code == VIP_SUCCESS) return {};
    base::Error error = vipl_error(code, "accepting the connection");
    VipConnectReject(request);
    return error;
}

}  // namespace via::tool
