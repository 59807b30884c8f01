// SPDX-License-Identifier: BSD-3-Clause
// A NIC: where everything else is made.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "via/listener.hpp"

namespace via {

class Nic {
  public:
    // By device name, such as "shm0".
    static Expected<Nic> open(const std::string& device) {
        auto handle = std::make_shared<detail::NicHandle>();
        VIP_RETURN code = VipOpenNic(device.c_str(), &handle->value);
        if (code != VIP_SUCCESS) {
            handle->value = nullptr;
            return Error::last(code);
        }
        code = VipQueryNic(handle->value, &handle->attributes);
        if (code != VIP_SUCCESS) return Error::last(code);
        auto tag = make_tag(handle);
        if (!tag) return tag.error();
        return Nic(std::move(handle), std::move(*tag));
    }

    Nic(Nic&&) noexcept = default;
    Nic& operator=(Nic&&) noexcept = default;

    const VIP_NIC_ATTRIBUTES& attributes() const noexcept { return handle_->attributes; }

    // ---- Addresses ----

    // This NIC's, with a discriminator.
    Address address(std::string_view discriminator) const {
        return {{attributes().LocalNicAddress, attributes().NicAddressLen}, discriminator};
    }

    // Another host's, by name; index 1 and up for further NICs of that host.
    Expected<Address> resolve(std::string host, std::string_view discriminator,
                              std::size_t index = 0) const {
        VIP_RETURN code = VipNSInit(handle_->value, nullptr);
        if (code != VIP_SUCCESS) return Error::last(code);
        Address found(attributes().NicAddressLen, attributes().MaxDiscriminatorLen);
        code = VipNSGetHostByName(handle_->value, host.data(), found.vip(), index);
        if (code != VIP_SUCCESS) {
            Error error = Error::last(code);
            VipNSShutdown(handle_->value);
            return error;
        }
        VipNSShutdown(handle_->value);
        return Address(found.host(), discriminator);
    }

    // ---- Memory ----

    // Memory of the kernel agent, which peers can map: the fastest there is.
    Expected<Memory> allocate(std::size_t bytes, Rights rights = {},
                              const ProtectionTag* tag = nullptr) const {
        return Memory::allocate(tag_of(tag), bytes, rights);
    }

    // Memory that the program has already, and keeps for as long.
    Expected<Memory> register_memory(std::span<std::byte> bytes, Rights rights = {},
                                     const ProtectionTag* tag = nullptr) const {
        return Memory::register_bytes(tag_of(tag), bytes, rights);
    }

    // Buffers to send from and receive into.
    Expected<BufferPool> create_pool(std::size_t buffers, std::size_t bytes_each,
                                     const ProtectionTag* tag = nullptr) const {
        if (bytes_each == 0 || bytes_each > BufferPool::max_bytes_each) {
            return BufferPool::bad_size(bytes_each);
        }
        const std::size_t stride = BufferPool::stride(bytes_each);
        if (buffers == 0 || buffers > std::numeric_limits<std::size_t>::max() / stride) {
            return Error{VIP_INVALID_PARAMETER, "making a pool of " + std::to_string(buffers) +
                                                    " buffers: no memory can hold just that"};
        }
        auto memory = allocate(buffers * stride, {}, tag);
        if (!memory) return memory.error();
        return BufferPool::create(std::move(*memory), bytes_each);
    }

    Expected<ProtectionTag> create_tag() const {
        auto tag = make_tag(handle_);
        if (!tag) return tag.error();
        return ProtectionTag(std::move(*tag));
    }

    // ---- Endpoints ----

    Expected<CompletionQueue> create_completion_queue(std::size_t entries) const {
        VIP_CQ_HANDLE queue = nullptr;
        const VIP_RETURN code = VipCreateCQ(handle_->value, entries, &queue);
        if (code != VIP_SUCCESS) return Error::last(code);
        return CompletionQueue(std::make_shared<detail::QueueHandle>(handle_, queue));
    }

    Expected<Vi> create_vi(const ViOptions& options = {}) const {
        return Vi::create(tag_of(options.tag), options);
    }

    Listener listen(Address address) const { return {handle_, std::move(address)}; }

    // ---- Errors that no completion can carry ----

    // The function runs on a thread of the library. An empty one keeps them from being logged.
    Expected<void> on_error(std::function<void(const VIP_ERROR_DESCRIPTOR&)> function) {
        auto kept = std::make_unique<detail::ErrorFunction>(std::move(function));
        const VIP_RETURN code = VipErrorCallback(handle_->value, kept.get(), run_error_function);
        if (code != VIP_SUCCESS) return Error::last(code);
        handle_->error_functions.push_back(std::move(kept));
        return {};
    }

    VIP_NIC_HANDLE handle() const noexcept { return handle_->value; }

  private:
    Nic(std::shared_ptr<detail::NicHandle> handle, std::shared_ptr<detail::TagHandle> tag) noexcept
        : handle_(std::move(handle)), tag_(std::move(tag)) {}

    static Expected<std::shared_ptr<detail::TagHandle>> make_tag(
        std::shared_ptr<detail::NicHandle> nic) {
        VIP_PROTECTION_HANDLE tag = nullptr;
        const VIP_RETURN code = VipCreatePtag(nic->value, &tag);
        if (code != VIP_SUCCESS) return Error::last(code);
        return std::make_shared<detail::TagHandle>(std::move(nic), tag);
    }

    static void run_error_function(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
        const auto& function = *static_cast<detail::ErrorFunction*>(context);
        if (function) function(*error);
    }

    std::shared_ptr<detail::TagHandle> tag_of(const ProtectionTag* tag) const {
        return tag != nullptr ? tag->shared_handle() : tag_;
    }

    std::shared_ptr<detail::NicHandle> handle_;
    std::shared_ptr<detail::TagHandle> tag_;
};

}  // namespace via
