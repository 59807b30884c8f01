// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/conditions.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

void PrintTo(VIP_VI_STATE state, std::ostream* out) {
    static constexpr const char* names[] = {"Idle", "Connected", "Connect Pending", "Error"};
    *out << (state <= VIP_STATE_ERROR ? names[state] : "no state");
}

void PrintTo(VIP_ERROR_CODE code, std::ostream* out) {
    static constexpr const char* names[] = {
        "POST_DESC",   "CONN_LOST",  "RECVQ_EMPTY", "VI_OVERRUN",     "RDMAW_PROT",  "RDMAW_DATA",
        "RDMAW_ABORT", "RDMAR_PROT", "COMP_PROT",   "RDMA_TRANSPORT", "CATASTROPHIC"};
    *out << (code <= VIP_ERROR_CATASTROPHIC ? names[code] : "no code");
}

namespace via::test {

namespace {

std::string returned_text(VIP_RETURN code) {
    return std::string(VipxReturnName(code)) + " (" + std::to_string(static_cast<int>(code)) + ")";
}

}  // namespace

void fail_with(const std::string& what, VIP_RETURN code) {
    throw std::runtime_error(what + ": " + returned_text(code) + ", " + VipxErrorText());
}

const char* device() {
    static const char* const name = [] {
        const char* given = std::getenv("VIA_TEST_DEVICE");
        return given != nullptr && *given != '\0' ? given : "shm0";
    }();
    return name;
}

bool simulated() {
    return std::string_view(device()).starts_with("lanai");
}

bool use_kmem() {
    static const bool kmem = [] {
        const char* given = std::getenv("VIA_TEST_MEMORY");
        return given != nullptr && std::string_view(given) == "kmem";
    }();
    return kmem;
}

unsigned rounds(unsigned wanted) {
#if defined(__SANITIZE_THREAD__)
    return std::max(1U, wanted / 10);
#elif defined(__SANITIZE_ADDRESS__)
    return std::max(1U, wanted / 4);
#else
    return wanted;
#endif
}

bool try_limits() {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return false;
#else
    const char* given = std::getenv("VIA_TEST_LIMITS");
    return given == nullptr || std::string_view(given) != "0";
#endif
}

testing::AssertionResult vip_returned(const char* expected_text, const char* call_text,
                                      VIP_RETURN expected, VIP_RETURN actual) {
    if (expected == actual) return testing::AssertionSuccess();
    auto result = testing::AssertionFailure()
                  << call_text << "\n  returned " << returned_text(actual) << "\n  expected "
                  << expected_text;
    if (actual != VIP_SUCCESS) result << "\n  " << VipxErrorText();
    return result;
}

}  // namespace via::test
