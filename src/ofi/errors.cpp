// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/errors.hpp"

namespace via::ofi {

int error_number(mvich::Status status) noexcept {
    switch (status) {
        case mvich::Status::Ok:
            return 0;
        case mvich::Status::Truncated:
            return FI_ETRUNC;
        case mvich::Status::Cancelled:
            return FI_ECANCELED;
        case mvich::Status::PeerLost:
            return FI_ECONNRESET;
        case mvich::Status::Refused:
            return FI_EKEYREJECTED;
        case mvich::Status::NoMessage:
            return FI_ENOMSG;
        case mvich::Status::Unsupported:
            return FI_EOPNOTSUPP;
    }
    return FI_EOTHER;
}

const char* sentence(int provider_error) noexcept {
    switch (static_cast<mvich::Status>(provider_error)) {
        case mvich::Status::Ok:
            return "all is well";
        case mvich::Status::Truncated:
            return "the message was longer than the buffer of the receive; what fitted is there";
        case mvich::Status::Cancelled:
            return "cancelled by fi_cancel, or because its endpoint was closed";
        case mvich::Status::PeerLost:
            return "the connection to the peer is gone: its process has ended, its endpoint was "
                   "closed, or its host can not be reached";
        case mvich::Status::Refused:
            return "the peer has no registered memory with this key, range and right";
        case mvich::Status::NoMessage:
            return "no message that fits has come yet";
        case mvich::Status::Unsupported:
            return "the peer does not know this atomic operation on this datatype";
    }
    return "unknown error";
}

int error_number(base::Code code) noexcept {
    switch (code) {
        case base::Code::InvalidArgument:
            return FI_EINVAL;
        case base::Code::InvalidState:
            return FI_EOPBADSTATE;
        case base::Code::OutOfResources:
            return FI_ENOMEM;
        case base::Code::Timeout:
            return FI_ETIMEDOUT;
        case base::Code::Rejected:
        case base::Code::NoMatch:
            return FI_ECONNREFUSED;
        case base::Code::NotFound:
        case base::Code::NameService:
            return FI_ENODATA;
        case base::Code::NotReachable:
            return FI_EHOSTUNREACH;
        case base::Code::PermissionDenied:
        case base::Code::ProtectionTag:
        case base::Code::RdmaReadRefused:
            return FI_EACCES;
        case base::Code::ConnectionLost:
            return FI_ECONNRESET;
        case base::Code::NotSupported:
            return FI_EOPNOTSUPP;
        case base::Code::ReliabilityMismatch:
        case base::Code::TransferSizeMismatch:
        case base::Code::QosMismatch:
        case base::Code::ProtocolViolation:
            return FI_EREMOTEIO;
        case base::Code::System:
            return FI_EIO;
    }
    return FI_EOTHER;
}

ssize_t reason(mvich::Posted posted) noexcept {
    switch (posted) {
        case mvich::Posted::Done:
        case mvich::Posted::UnderWay:
            return 0;
        case mvich::Posted::Again:
            return -FI_EAGAIN;
        case mvich::Posted::UnknownPeer:
            return -FI_EHOSTUNREACH;
        case mvich::Posted::Invalid:
            return -FI_EINVAL;
    }
    return -FI_EOTHER;
}

}  // namespace via::ofi
