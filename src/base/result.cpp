// SPDX-License-Identifier: BSD-3-Clause
#include "base/result.hpp"

#include <cerrno>
#include <cstring>

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
    return Error{code, std::move(sentence)};
}

}  // namespace via::base
