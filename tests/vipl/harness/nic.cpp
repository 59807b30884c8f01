// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/nic.hpp"

#include <algorithm>
#include <string>

namespace via::test {

void ErrorRecorder::handle(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    auto* recorder = static_cast<ErrorRecorder*>(context);
    const std::lock_guard lock(recorder->mutex_);
    recorder->events_.push_back(*error);
    recorder->changed_.notify_all();
}

std::vector<VIP_ERROR_DESCRIPTOR> ErrorRecorder::events() const {
    const std::lock_guard lock(mutex_);
    return events_;
}

std::size_t ErrorRecorder::count() const {
    const std::lock_guard lock(mutex_);
    return events_.size();
}

std::size_t ErrorRecorder::count(VIP_ERROR_CODE code) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(events_.begin(), events_.end(),
                      [=](const auto& event) { return event.ErrorCode == code; }));
}

std::size_t ErrorRecorder::count(VIP_ERROR_CODE code, VIP_VI_HANDLE vi) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        events_.begin(), events_.end(),
        [=](const auto& event) { return event.ErrorCode == code && event.ViHandle == vi; }));
}

bool ErrorRecorder::await(VIP_ERROR_CODE code, VIP_VI_HANDLE vi) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] {
        return std::any_of(events_.begin(), events_.end(), [&](const auto& event) {
            return event.ErrorCode == code && event.ViHandle == vi;
        });
    });
}

VIP_ERROR_DESCRIPTOR ErrorRecorder::first(VIP_ERROR_CODE code) const {
    const std::lock_guard lock(mutex_);
    for (const auto& event : events_) {
        if (event.ErrorCode == code) return event;
    }
    return {};
}

Nic::Nic(const char* name) : errors_(std::make_unique<ErrorRecorder>()) {
    VIP_RETURN code = VipOpenNic(name, &handle_);
    if (code != VIP_SUCCESS) fail_with(std::string("VipOpenNic ") + name, code);
    code = VipQueryNic(handle_, &attributes_);
    if (code != VIP_SUCCESS) fail_with("VipQueryNic", code);
    code = VipErrorCallback(handle_, errors_.get(), &ErrorRecorder::handle);
    if (code != VIP_SUCCESS) fail_with("VipErrorCallback", code);
}

Nic::~Nic() {
    close();
}

void Nic::close() {
    if (handle_ == nullptr) return;
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(handle_));
    handle_ = nullptr;
}

VIP_PROTECTION_HANDLE make_tag(const Nic& nic) {
    VIP_PROTECTION_HANDLE tag = nullptr;
    const VIP_RETURN code = VipCreatePtag(nic, &tag);
    if (code != VIP_SUCCESS) fail_with("VipCreatePtag", code);
    return tag;
}

}  // namespace via::test
