// SPDX-License-Identifier: BSD-3-Clause
// What stands in libfabric's tables where this provider has nothing to offer. No place is left
// empty: libfabric calls without looking.
#pragma once

#include <rdma/fi_errno.h>

#include <type_traits>

namespace via::ofi {

/// Becomes whatever function a table wants, and says -FI_ENOSYS (a null pointer, where one is
/// returned).
struct NotSupported {
    template <class Result, class... Arguments>
    using Function = Result (*)(Arguments...);

    template <class Result, class... Arguments>
    constexpr operator Function<Result, Arguments...>() const noexcept {  // NOLINT
        return [](Arguments...) -> Result {
            if constexpr (std::is_pointer_v<Result>)
                return nullptr;
            else if constexpr (std::is_unsigned_v<Result>)
                return 0;
            else
                return -FI_ENOSYS;
        };
    }
};

inline constexpr NotSupported not_supported;

}  // namespace via::ofi
