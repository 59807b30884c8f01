// SPDX-License-Identifier: BSD-3-Clause
#include "base/result.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

namespace via::base {

std::string_view code_name(Code code) noexcept {
    switch (code) {
        case Code::InvalidArgument:
            return "invalid argument";
        case Code::InvalidState:
            return "invalid state";
        case Code::OutOfResources:
            return "out of resources";
        case Code::Timeout:
            return "timeout";
        case Code::Rejected:
            return "rejected";
        case Code::NoMatch:
            return "no match";
        case Code::NotFound:
            return "not found";
        case Code::NotReachable:
            return "not reachable";
        case Code::PermissionDenied:
            return "permission denied";
        case Code::ConnectionLost:
            return "connection lost";
        case Code::NotSupported:
            return "not supported";
        case Code::NameService:
            return "name service";
        case Code::ReliabilityMismatch:
            return "reliability mismatch";
        case Code::TransferSizeMismatch:
            return "transfer size mismatch";
        case Code::QosMismatch:
            return "quality of service mismatch";
        case Code::ProtectionTag:
            return "protection tag";
        case Code::RdmaReadRefused:
            return "RDMA read refused";
        case Code::ProtocolViolation:
            return "protocol violation";
        case Code::System:
            return "system";
    }
    return "unknown";
}

MemoryLimits::MemoryLimits() noexcept {
    struct {
        const char* name;
        decltype(RLIMIT_AS) resource;
    } const all[] = {{"RLIMIT_AS", RLIMIT_AS}, {"RLIMIT_DATA", RLIMIT_DATA}};
    for (const auto& each : all) {
        rlimit limit{};
        if (getrlimit(each.resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
        const int written =
            std::snprintf(text_ + length_, sizeof text_ - length_, "; %s is %llu bytes", each.name,
                          static_cast<unsigned long long>(limit.rlim_cur));
        length_ += static_cast<std::size_t>(written);
    }
}

Error out_of_memory() noexcept {
    Error error{Code::OutOfResources, "out of memory"};  // short enough to need none
    try {
        error.sentence += MemoryLimits().text();
    } catch (const std::bad_alloc&) {
        // Then without them.
    }
    return error;
}

Error system_error(int error_number, std::string_view what_was_tried) {
    Code code = Code::System;
    switch (error_number) {
        case ENOMEM:
        case EAGAIN:
        case EMFILE:
        case ENFILE:
        case ENOSPC:
        case ENOBUFS:
            code = Code::OutOfResources;
            break;
        case EACCES:
        case EPERM:
            code = Code::PermissionDenied;
            break;
        case ETIMEDOUT:
            code = Code::Timeout;
            break;
        default:
            break;
    }
    char text[128];
    // The GNU strerror_r returns the text; it need not be in the buffer.
    const char* reason = strerror_r(error_number, text, sizeof text);
    std::string sentence(what_was_tried);
    sentence += ": ";
    sentence += reason;
    sentence += " (errno ";
    sentence += std::to_string(error_number);
    sentence += ")";
    if (error_number == EMFILE) {
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        sentence += "; RLIMIT_NOFILE is " + std::to_string(limit.rlim_cur);
    }
    if (error_number == ENOMEM) sentence += MemoryLimits().text();
    return Error{code, std::move(sentence)};
}

}  // namespace via::base
