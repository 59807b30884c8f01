// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/arena.hpp"

#include <vipx.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace via::test {

void fill(VIP_DESCRIPTOR* descriptor, std::span<const Segment> segments, unsigned control) {
    descriptor->CS = {};
    descriptor->CS.SegCount = static_cast<VIP_UINT16>(segments.size());
    descriptor->CS.Control = static_cast<VIP_UINT16>(VIP_CONTROL_OP_SENDRECV | control);
    auto* out = segments_of(descriptor);
    for (const Segment& segment : segments) {
        out->Local.Data.AddressBits = reinterpret_cast<std::uintptr_t>(segment.data);
        out->Local.Handle = segment.handle;
        out->Local.Length = segment.bytes;
        descriptor->CS.Length += segment.bytes;
        ++out;
    }
}

void fill_rdma(VIP_DESCRIPTOR* descriptor, Remote remote, std::span<const Segment> segments,
               unsigned control) {
    descriptor->CS = {};
    descriptor->CS.SegCount = static_cast<VIP_UINT16>(segments.size() + 1);
    descriptor->CS.Control = static_cast<VIP_UINT16>(control);
    auto* out = segments_of(descriptor);
    out->Remote.Data.AddressBits = reinterpret_cast<std::uintptr_t>(remote.data);
    out->Remote.Handle = remote.handle;
    out->Remote.Reserved = 0;
    for (const Segment& segment : segments) {
        ++out;
        out->Local.Data.AddressBits = reinterpret_cast<std::uintptr_t>(segment.data);
        out->Local.Handle = segment.handle;
        out->Local.Length = segment.bytes;
        descriptor->CS.Length += segment.bytes;
    }
}

Arena::Arena(Nic& nic, const ArenaOptions& options) : nic_(nic), options_(options) {
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = options.tag;
    attributes.EnableRdmaWrite = options.rdma_write ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead =
        options.rdma_read && nic.attributes().RDMAReadSupport != 0 ? VIP_TRUE : VIP_FALSE;
    if (use_kmem()) {
        VIP_PVOID address = nullptr;
        const VIP_RETURN code = VipxAllocMem(nic, options.bytes, &attributes, &address, &handle_);
        if (code != VIP_SUCCESS) fail_with("VipxAllocMem", code);
        base_ = static_cast<std::byte*>(address);
    } else {
        base_ = static_cast<std::byte*>(::operator new (options.bytes, std::align_val_t{4096}));
        std::memset(base_, 0, options.bytes);
        const VIP_RETURN code = VipRegisterMem(nic, base_, options.bytes, &attributes, &handle_);
        if (code != VIP_SUCCESS) fail_with("VipRegisterMem", code);
    }
    registered_ = true;
}

Arena::~Arena() {
    deregister();
    if (!use_kmem()) ::operator delete (base_, std::align_val_t{4096});
}

void Arena::deregister() {
    if (!registered_) return;
    registered_ = false;
    if (!nic_.is_open()) return;
    if (use_kmem()) {
        EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(nic_, base_, handle_));
    } else {
        EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic_, base_, handle_));
    }
}

std::byte* Arena::take(std::size_t bytes, std::size_t alignment) {
    const std::size_t first = (used_ + alignment - 1) / alignment * alignment;
    if (first > options_.bytes || bytes > options_.bytes - first) {
        throw std::runtime_error("the test's arena is too small");
    }
    used_ = first + bytes;
    return base_ + first;
}

VIP_DESCRIPTOR* Arena::descriptor(std::size_t segments) {
    const std::size_t bytes = sizeof(VIP_CONTROL_SEGMENT) +
                              std::max<std::size_t>(2, segments) * sizeof(VIP_DESCRIPTOR_SEGMENT);
    std::byte* memory = take(bytes, VIP_DESCRIPTOR_ALIGNMENT);
    std::memset(memory, 0, bytes);
    return reinterpret_cast<VIP_DESCRIPTOR*>(memory);
}

VIP_DESCRIPTOR* Arena::message(const void* data, std::size_t bytes, unsigned control) {
    VIP_DESCRIPTOR* result = descriptor();
    const Segment part = segment(data, bytes);
    fill(result, {&part, 1}, control);
    return result;
}

VIP_DESCRIPTOR* Arena::immediate_message(const void* data, std::size_t bytes,
                                         std::uint32_t immediate) {
    VIP_DESCRIPTOR* result = message(data, bytes, VIP_CONTROL_IMMEDIATE);
    result->CS.ImmediateData = immediate;
    return result;
}

VIP_DESCRIPTOR* Arena::rdma(const void* data, std::size_t bytes, Remote remote, unsigned control) {
    VIP_DESCRIPTOR* result = descriptor();
    const Segment part = segment(data, bytes);
    fill_rdma(result, remote, {&part, 1}, control);
    return result;
}

VIP_DESCRIPTOR* Arena::rdma_write(const void* data, std::size_t bytes, Remote remote,
                                  unsigned control) {
    return rdma(data, bytes, remote, VIP_CONTROL_OP_RDMAWRITE | control);
}

VIP_DESCRIPTOR* Arena::rdma_read(const void* data, std::size_t bytes, Remote remote,
                                 unsigned control) {
    return rdma(data, bytes, remote, VIP_CONTROL_OP_RDMAREAD | control);
}

}  // namespace via::test
