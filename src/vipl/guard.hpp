// SPDX-License-Identifier: BSD-3-Clause
// The C border: no exception leaves it. What throws below is running out of memory.
#pragma once

#include <cstdio>
#include <exception>
#include <new>

#include "base/result.hpp"
#include "ua/tables.hpp"
#include "vipl/error_text.hpp"

namespace via::vipl {

inline VIP_RETURN out_of_memory(const char* function) noexcept {
    const base::MemoryLimits limits;
    char sentence[160];
    std::snprintf(sentence, sizeof sentence, "out of memory%.*s",
                  static_cast<int>(limits.text().size()), limits.text().data());
    return failed(function, VIP_ERROR_RESOURCE, sentence);
}

template <class Body>
VIP_RETURN guarded(const char* function, Body body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return out_of_memory(function);
    } catch (const std::exception& error) {
        return failed(function, VIP_ERROR_RESOURCE, error.what());
    }
}

inline VIP_RETURN bad_nic(const char* function) noexcept {
    return failed(function, VIP_INVALID_PARAMETER,
                  "the NIC handle is not one that VipOpenNic gave and VipCloseNic has not closed");
}
inline VIP_RETURN bad_vi(const char* function) noexcept {
    return failed(function, VIP_INVALID_PARAMETER,
                  "the VI handle is not one that VipCreateVi gave and that still exists");
}
inline VIP_RETURN bad_cq(const char* function) noexcept {
    return failed(function, VIP_INVALID_PARAMETER,
                  "the CQ handle is not one that VipCreateCQ gave and that still exists");
}

[[nodiscard]] inline std::uint64_t bits(const void* handle) noexcept {
    return reinterpret_cast<std::uint64_t>(handle);
}

}  // namespace via::vipl
