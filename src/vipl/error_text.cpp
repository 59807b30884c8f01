// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/error_text.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace via::vipl {
namespace {

// A fixed buffer: keeping an error must not itself need memory.
thread_local std::array<char, 512> text{};

}  // namespace

void set_error_text(std::string_view function, std::string_view sentence) noexcept {
    std::size_t used = 0;
    const auto append = [&](std::string_view part) {
        const std::size_t bytes = std::min(part.size(), text.size() - 1 - used);
        std::memcpy(text.data() + used, part.data(), bytes);
        used += bytes;
    };
    append(function);
    append(": ");
    append(sentence);
    text[used] = '\0';
}

const char* error_text() noexcept {
    return text.data();
}

VIP_RETURN to_return(base::Code code) noexcept {
    switch (code) {
        case base::Code::InvalidArgument:
            return VIP_INVALID_PARAMETER;
        case base::Code::InvalidState:
            return VIP_INVALID_STATE;
        case base::Code::OutOfResources:
            return VIP_ERROR_RESOURCE;
        case base::Code::Timeout:
            return VIP_TIMEOUT;
        case base::Code::Rejected:
            return VIP_REJECT;
        case base::Code::NoMatch:
            return VIP_NO_MATCH;
        case base::Code::NotFound:
            return VIP_ERROR_RESOURCE;
        case base::Code::NotReachable:
            return VIP_NOT_REACHABLE;
        case base::Code::PermissionDenied:
            return VIP_ERROR_RESOURCE;
        case base::Code::ConnectionLost:
            return VIP_ERROR_RESOURCE;
        case base::Code::NotSupported:
            return VIP_ERROR_NOT_SUPPORTED;
        case base::Code::NameService:
            return VIP_ERROR_NAMESERVICE;
        case base::Code::ReliabilityMismatch:
            return VIP_INVALID_RELIABILITY_LEVEL;
        case base::Code::TransferSizeMismatch:
            return VIP_INVALID_MTU;
        case base::Code::QosMismatch:
            return VIP_INVALID_QOS;
        case base::Code::ProtectionTag:
            return VIP_INVALID_PTAG;
        case base::Code::RdmaReadRefused:
            return VIP_INVALID_RDMAREAD;
        case base::Code::ProtocolViolation:
            return VIP_ERROR_RESOURCE;
        case base::Code::System:
            return VIP_ERROR_RESOURCE;
    }
    return VIP_ERROR_RESOURCE;
}

const char* return_name(VIP_RETURN code) noexcept {
    switch (code) {
        case VIP_SUCCESS:
            return "VIP_SUCCESS";
        case VIP_NOT_DONE:
            return "VIP_NOT_DONE";
        case VIP_INVALID_PARAMETER:
            return "VIP_INVALID_PARAMETER";
        case VIP_ERROR_RESOURCE:
            return "VIP_ERROR_RESOURCE";
        case VIP_TIMEOUT:
            return "VIP_TIMEOUT";
        case VIP_REJECT:
            return "VIP_REJECT";
        case VIP_INVALID_RELIABILITY_LEVEL:
            return "VIP_INVALID_RELIABILITY_LEVEL";
        case VIP_INVALID_MTU:
            return "VIP_INVALID_MTU";
        case VIP_INVALID_QOS:
            return "VIP_INVALID_QOS";
        case VIP_INVALID_PTAG:
            return "VIP_INVALID_PTAG";
        case VIP_INVALID_RDMAREAD:
            return "VIP_INVALID_RDMAREAD";
        case VIP_DESCRIPTOR_ERROR:
            return "VIP_DESCRIPTOR_ERROR";
        case VIP_INVALID_STATE:
            return "VIP_INVALID_STATE";
        case VIP_ERROR_NAMESERVICE:
            return "VIP_ERROR_NAMESERVICE";
        case VIP_NO_MATCH:
            return "VIP_NO_MATCH";
        case VIP_NOT_REACHABLE:
            return "VIP_NOT_REACHABLE";
        case VIP_ERROR_NOT_SUPPORTED:
            return "VIP_ERROR_NOT_SUPPORTED";
    }
    return "unknown VIP_RETURN";
}

VIP_RETURN failed(std::string_view function, const base::Error& error) noexcept {
    set_error_text(function, error.sentence);
    return to_return(error.code);
}

VIP_RETURN failed(std::string_view function, VIP_RETURN code, std::string_view sentence) noexcept {
    set_error_text(function, sentence);
    return code;
}

}  // namespace via::vipl
