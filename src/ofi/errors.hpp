// SPDX-License-Identifier: BSD-3-Clause
// libfabric's error numbers for what the layers below say.
#pragma once

#include <sys/types.h>

#include <new>

#include <rdma/fi_errno.h>

#include "base/result.hpp"
#include "mvich/order.hpp"

namespace via::ofi {

/// Of an operation that has ended. Positive; 0: it went well.
[[nodiscard]] int error_number(mvich::Status status) noexcept;
[[nodiscard]] int error_number(base::Code code) noexcept;
/// What fi_cq_strerror says; prov_errno is the Status.
[[nodiscard]] const char* sentence(int provider_error) noexcept;

/// What a call that orders something returns when the order was not taken.
[[nodiscard]] ssize_t reason(mvich::Posted posted) noexcept;
[[nodiscard]] inline ssize_t refusal(mvich::Posted posted) noexcept {
    return posted == mvich::Posted::UnderWay ? 0 : reason(posted);
}

/// For calls that may need memory: no exception passes the C border.
template <class Body>
auto guarded(Body body) noexcept -> decltype(body()) {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return -FI_ENOMEM;
    } catch (...) {
        return -FI_EOTHER;
    }
}

}  // namespace via::ofi
