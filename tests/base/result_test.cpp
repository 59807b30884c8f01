// SPDX-License-Identifier: BSD-3-Clause
#include "base/result.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

using namespace via::base;

namespace {

Result<std::unique_ptr<int>> half(int number) {
    if (number % 2 != 0)
        return Result<std::unique_ptr<int>>(Code::InvalidArgument, "cannot halve an odd number");
    return std::make_unique<int>(number / 2);
}

Result<void> must_be_even(int number) {
    auto result = half(number);
    if (!result) return std::move(result).error();
    return {};
}

TEST(Result, HoldsAMoveOnlyValue) {
    auto result = half(8);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(*result.value(), 4);
    const std::unique_ptr<int> taken = std::move(result).value();
    EXPECT_EQ(*taken, 4);
}

TEST(Result, HoldsCodeAndSentence) {
    const auto result = half(7);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::InvalidArgument);
    EXPECT_EQ(result.error().sentence, "cannot halve an odd number");
}

TEST(Result, AnErrorTravelsThroughAnotherType) {
    EXPECT_TRUE(must_be_even(2));
    const auto result = must_be_even(3);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().sentence, "cannot halve an odd number");
}

TEST(Result, AskingForAValueThatIsNotThereThrows) {
    auto result = half(7);
    EXPECT_THROW((void)result.value(), std::bad_variant_access);
}

TEST(Result, EveryCodeHasItsOwnName) {
    std::set<std::string_view> names;
    for (int code = 0; code <= static_cast<int>(Code::System); ++code)
        names.insert(code_name(static_cast<Code>(code)));
    EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::System) + 1);
    EXPECT_EQ(names.count("unknown"), 0u);
    EXPECT_EQ(code_name(static_cast<Code>(200)), "unknown");
}

TEST(SystemError, SaysWhatWasTriedAndWhy) {
    const Error error = system_error(ENOENT, "cannot open /nowhere");
    EXPECT_EQ(error.code, Code::System);
    EXPECT_EQ(error.sentence, "cannot open /nowhere: No such file or directory (errno 2)");
}

TEST(SystemError, MapsNumbersToCodes) {
    for (const int number : {ENOMEM, EAGAIN, EMFILE, ENFILE, ENOSPC, ENOBUFS})
        EXPECT_EQ(system_error(number, "x").code, Code::OutOfResources) << number;
    for (const int number : {EACCES, EPERM})
        EXPECT_EQ(system_error(number, "x").code, Code::PermissionDenied) << number;
    EXPECT_EQ(system_error(ETIMEDOUT, "x").code, Code::Timeout);
    EXPECT_EQ(system_error(EIO, "x").code, Code::System);
}

TEST(SystemError, NamesTheLimitThatWasMet) {
    rlimit descriptors{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
    EXPECT_EQ(system_error(EMFILE, "cannot open").sentence,
              "cannot open: Too many open files (errno 24); RLIMIT_NOFILE is " +
                  std::to_string(descriptors.rlim_cur));
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
    const rlimit limited{std::uint64_t{1} << 46, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_DATA, &limited), 0);
    EXPECT_NE(system_error(ENOMEM, "cannot map")
                  .sentence.find("(errno 12); RLIMIT_DATA is 70368744177664 bytes"),
              std::string::npos);
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
}

}  // namespace
