// SPDX-License-Identifier: BSD-3-Clause
// The server's side of a connection: wait for requests, accept or reject them.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "via/vi.hpp"

namespace via {

// Somebody wants to connect. Rejected when dropped unanswered.
class Request {
  public:
    Request(std::shared_ptr<detail::NicHandle> nic, VIP_CONN_HANDLE handle, Address remote,
            const ViAttributes& attributes) noexcept
        : nic_(std::move(nic)),
          handle_(handle),
          remote_(std::move(remote)),
          attributes_(attributes) {}
    Request(Request&& other) noexcept
        : nic_(std::move(other.nic_)),
          handle_(std::exchange(other.handle_, nullptr)),
          remote_(std::move(other.remote_)),
          attributes_(other.attributes_) {}
    Request& operator=(Request&& other) noexcept {
        if (this != &other) {
            drop();
            nic_ = std::move(other.nic_);
            handle_ = std::exchange(other.handle_, nullptr);
            remote_ = std::move(other.remote_);
            attributes_ = other.attributes_;
        }
        return *this;
    }
    ~Request() { drop(); }

    const Address& remote() const noexcept { return remote_; }
    const ViAttributes& attributes() const noexcept { return attributes_; }

    // Connects an idle VI. When that fails the request stays open for another try.
    Expected<void> accept(Vi& vi) {
        if (handle_ == nullptr) return answered();
        const VIP_RETURN code = VipConnectAccept(handle_, vi.handle());
        if (code != VIP_SUCCESS) return Error::last(code);
        handle_ = nullptr;
        return {};
    }

    Expected<void> reject() {
        if (handle_ == nullptr) return answered();
        return detail::check(VipConnectReject(std::exchange(handle_, nullptr)));
    }

  private:
    static Error answered() {
        return {VIP_INVALID_PARAMETER, "answering a connection request that was answered already"};
    }

    void drop() noexcept {
        if (handle_ != nullptr) VipConnectReject(std::exchange(handle_, nullptr));
    }

    std::shared_ptr<detail::NicHandle> nic_;
    VIP_CONN_HANDLE handle_;
    Address remote_;
    ViAttributes attributes_;
};

// An address at which requests are awaited. VIPL keeps no backlog: who asks while nobody is in
// wait() is told VIP_NO_MATCH, and Vi::connect asks again.
class Listener {
  public:
    // Use Nic::listen.
    Listener(std::shared_ptr<detail::NicHandle> nic, Address address) noexcept
        : nic_(std::move(nic)), address_(std::move(address)) {}
    Listener(Listener&&) noexcept = default;
    Listener& operator=(Listener&&) noexcept = default;

    const Address& address() const noexcept { return address_; }

    Expected<Request> wait(std::chrono::milliseconds timeout) {
        Address remote(nic_->attributes.NicAddressLen, nic_->attributes.MaxDiscriminatorLen);
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE handle = nullptr;
        const VIP_RETURN code =
            VipConnectWait(nic_->value, address_.vip(), detail::milliseconds(timeout), remote.vip(),
                           &attributes, &handle);
        if (code != VIP_SUCCESS) return Error::last(code);
        return Request(nic_, handle, std::move(remote), ViAttributes::from(attributes));
    }

  private:
    std::shared_ptr<detail::NicHandle> nic_;
    Address address_;
};

}  // namespace via
