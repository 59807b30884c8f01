// SPDX-License-Identifier: BSD-3-Clause
// An open scripted NIC with registered memory, its asynchronous errors, and a handle to a VI.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ua/completion_queue.hpp"
#include "ua/hot_path.hpp"
#include "ua/nic.hpp"
#include "ua/scripted_device.hpp"
#include "ua/tables.hpp"

namespace via::test {

/// Long enough that only a hang makes a test wait for it.
inline base::Deadline far() {
    return base::Deadline::after_milliseconds(60000);
}

/// Room for a descriptor with many segments.
struct alignas(VIP_DESCRIPTOR_ALIGNMENT) LongDescriptor {
    VIP_DESCRIPTOR head;
    VIP_DESCRIPTOR_SEGMENT more[30];
    [[nodiscard]] VIP_DESCRIPTOR_SEGMENT& segment(std::size_t i) noexcept {
        return *reinterpret_cast<VIP_DESCRIPTOR_SEGMENT*>(reinterpret_cast<std::byte*>(this) +
                                                          sizeof(VIP_CONTROL_SEGMENT) + i * 16);
    }
};

struct RegisteredMemory {
    std::array<LongDescriptor, 64> descriptors;
    std::array<std::byte, 65536> data;
};

class AsyncErrors {
  public:
    static void handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
        auto& self = *static_cast<AsyncErrors*>(context);
        const std::lock_guard guard(self.mutex_);
        self.errors_.push_back(*error);
    }
    /// All so far, and forgets them.
    std::vector<VIP_ERROR_DESCRIPTOR> take() {
        const std::lock_guard guard(mutex_);
        return std::exchange(errors_, {});
    }

  private:
    std::mutex mutex_;
    std::vector<VIP_ERROR_DESCRIPTOR> errors_;
};

class ScriptedNic : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = ua::Nic::open(ScriptedDevice::name);
        ASSERT_TRUE(opened) << opened.error().sentence;
        nic = opened.value();
        device().reset();
        nic->set_error_handler(AsyncErrors::handler, &errors);
        auto made = nic->create_tag();
        ASSERT_TRUE(made);
        tag = made.value();
        memory = std::make_unique<RegisteredMemory>();
        auto registered = nic->register_memory(memory.get(), sizeof *memory, {tag, 3});
        ASSERT_TRUE(registered);
        memory_handle = registered.value();
    }
    void TearDown() override {
        device().reset();
        if (nic) nic->close();
    }

    [[nodiscard]] static ScriptedDevice& device() { return ScriptedDevice::get(); }

    [[nodiscard]] ka::EndpointAttributes attributes(std::uint32_t reliability) const {
        ka::EndpointAttributes result;
        result.max_transfer_bytes = 50000;
        result.reliability = reliability;
        result.rights = 3;
        result.tag = tag;
        return result;
    }
    std::uint64_t create(std::uint32_t reliability, ua::CompletionQueue* send_cq = nullptr,
                         ua::CompletionQueue* receive_cq = nullptr, na::FrameSink* sink = nullptr) {
        auto made = nic->create_vi(attributes(reliability), send_cq, receive_cq, sink);
        EXPECT_TRUE(made);
        return made ? made.value() : 0;
    }
    [[nodiscard]] static ua::VirtualInterface& vi_of(std::uint64_t handle) {
        return *ua::vi_table().find(reinterpret_cast<void*>(handle));
    }
    std::pair<ua::CompletionQueue*, std::uint64_t> create_cq(std::uint32_t entries = 16) {
        auto made = nic->create_cq(entries);
        EXPECT_TRUE(made);
        return {ua::cq_table().find(reinterpret_cast<void*>(made.value())), made.value()};
    }
    /// Waits until the service thread has done all that was given to it before.
    void settle_service() {
        std::promise<void> done;
        nic->process().service().post([&] { done.set_value(); });
        ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
    }
    /// Codes of the asynchronous errors since the last call.
    std::vector<VIP_ERROR_CODE> error_codes() {
        settle_service();
        std::vector<VIP_ERROR_CODE> codes;
        for (const VIP_ERROR_DESCRIPTOR& error : errors.take())
            codes.push_back(error.ErrorCode);
        return codes;
    }

    [[nodiscard]] std::byte* data(std::size_t offset = 0) { return memory->data.data() + offset; }
    /// The i-th descriptor as a message of these lengths, cut from the front of the data.
    VIP_DESCRIPTOR* message(std::size_t i, const std::vector<std::uint32_t>& lengths = {8},
                            std::uint16_t control = 0, std::uint32_t immediate = 0) {
        LongDescriptor& descriptor = memory->descriptors[i];
        std::memset(&descriptor, 0xEE, sizeof descriptor);
        auto& head = descriptor.head.CS;
        head.SegCount = static_cast<VIP_UINT16>(lengths.size());
        head.Control = control;
        head.Reserved = 0;
        head.ImmediateData = immediate;
        head.Length = 0;
        std::size_t offset = 0;
        for (std::size_t s = 0; s < lengths.size(); ++s) {
            VIP_DATA_SEGMENT& segment = descriptor.segment(s).Local;
            segment.Data.AddressBits = reinterpret_cast<std::uint64_t>(data(offset));
            segment.Handle = memory_handle;
            segment.Length = lengths[s];
            head.Length += lengths[s];
            offset += lengths[s];
        }
        return &descriptor.head;
    }
    /// An RDMA: the first segment is the remote address.
    VIP_DESCRIPTOR* rdma(std::size_t i, std::uint16_t operation, std::uint64_t remote,
                         std::uint32_t remote_handle, const std::vector<std::uint32_t>& lengths,
                         std::uint16_t control = 0) {
        std::vector<std::uint32_t> all{0};
        all.insert(all.end(), lengths.begin(), lengths.end());
        VIP_DESCRIPTOR* descriptor =
            message(i, all, static_cast<std::uint16_t>(operation | control));
        VIP_ADDRESS_SEGMENT& address = memory->descriptors[i].segment(0).Remote;
        address.Data.AddressBits = remote;
        address.Handle = remote_handle;
        address.Reserved = 0;
        return descriptor;
    }

    std::shared_ptr<ua::Nic> nic;
    AsyncErrors errors;
    ka::ProtectionTag tag = 0;
    std::unique_ptr<RegisteredMemory> memory;
    ka::MemoryHandle memory_handle = 0;
};

/// One VI and the endpoint behind it.
class ScriptedVi : public ScriptedNic {
  protected:
    void open(std::uint32_t reliability, ua::CompletionQueue* send_cq = nullptr,
              ua::CompletionQueue* receive_cq = nullptr, na::FrameSink* sink = nullptr) {
        handle = create(reliability, send_cq, receive_cq, sink);
        vi = &vi_of(handle);
        endpoint = &device().newest();
    }
    void connect() {
        ASSERT_TRUE(vi->connect_request(handle, {}, {}, far()));
        ASSERT_EQ(state(), ua::ViState::Connected);
    }
    [[nodiscard]] ua::ViState state() {
        ua::ViSnapshot snapshot;
        EXPECT_TRUE(vi->snapshot(handle, snapshot));
        return snapshot.state;
    }
    ua::PostOutcome send(VIP_DESCRIPTOR* descriptor) {
        return vi->post_send(handle, descriptor, memory_handle);
    }
    ua::PostOutcome receive(VIP_DESCRIPTOR* descriptor) {
        return vi->post_receive(handle, descriptor, memory_handle);
    }
    /// What Done gives now.
    struct Taken {
        ua::DoneOutcome outcome;
        VIP_DESCRIPTOR* descriptor;
        [[nodiscard]] std::uint32_t errors() const {
            return descriptor == nullptr ? 0 : descriptor->CS.Status & VIP_STATUS_ERROR_MASK;
        }
    };
    Taken done(ua::Queue queue) {
        Taken taken{};
        taken.outcome = vi->done(handle, queue, taken.descriptor);
        return taken;
    }
    Taken send_done() { return done(ua::Queue::Send); }
    Taken receive_done() { return done(ua::Queue::Receive); }
    void expect_empty(ua::Queue queue) {
        const Taken taken = done(queue);
        EXPECT_EQ(taken.outcome, ua::DoneOutcome::DescriptorError);
        EXPECT_EQ(taken.descriptor, nullptr);
    }

    std::uint64_t handle = 0;
    ua::VirtualInterface* vi = nullptr;
    ScriptedEndpoint* endpoint = nullptr;
};

inline std::string level_name(const testing::TestParamInfo<std::uint32_t>& level) {
    return level.param == na::unreliable          ? "Unreliable"
           : level.param == na::reliable_delivery ? "Delivery"
                                                  : "Reception";
}

}  // namespace via::test
