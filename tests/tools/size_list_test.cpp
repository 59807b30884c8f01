// SPDX-License-Identifier: BSD-3-Clause
#include "size_list.hpp"

#include <gtest/gtest.h>

namespace via::tool {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(ParseSize, TakesPlainNumbersAndSuffixes) {
    EXPECT_EQ(parse_size("0").value(), 0u);
    EXPECT_EQ(parse_size("8").value(), 8u);
    EXPECT_EQ(parse_size("8b").value(), 8u);
    EXPECT_EQ(parse_size("4k").value(), 4096u);
    EXPECT_EQ(parse_size("4K").value(), 4096u);
    EXPECT_EQ(parse_size("4KiB").value(), 4096u);
    EXPECT_EQ(parse_size("1m").value(), 1u << 20);
    EXPECT_EQ(parse_size("2gb").value(), std::uint64_t{2} << 30);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
    for (const char* text : {"", "k", "-1", "4x", "4kk", "1.5k", " 8", "8 ", "0x10",
                             "18446744073709551616", "18446744073709551615k"}) {
        const auto size = parse_size(text);
        ASSERT_FALSE(size) << text;
        EXPECT_EQ(size.error().code, base::Code::InvalidArgument) << text;
        EXPECT_NE(size.error().sentence.find(text), std::string::npos) << size.error().sentence;
    }
}

TEST(ParseSizeList, TakesListsAndRanges) {
    EXPECT_EQ(parse_size_list("8").value(), Sizes({8}));
    EXPECT_EQ(parse_size_list("8,64,4k").value(), Sizes({8, 64, 4096}));
    EXPECT_EQ(parse_size_list("8:64").value(), Sizes({8, 16, 32, 64}));
    EXPECT_EQ(parse_size_list("8:100").value(), Sizes({8, 16, 32, 64}));
    EXPECT_EQ(parse_size_list("1k:16k:4").value(), Sizes({1024, 4096, 16384}));
    EXPECT_EQ(parse_size_list("1,8:16,1m").value(), Sizes({1, 8, 16, 1 << 20}));
    EXPECT_EQ(parse_size_list("8:4m").value().size(), 20u);
    EXPECT_EQ(parse_size_list("5:5").value(), Sizes({5}));
}

TEST(ParseSizeList, RangeUpToTheLargestNumberEnds) {
    EXPECT_EQ(parse_size_list("1:18446744073709551615").value().size(), 64u);
}

TEST(ParseSizeList, RefusesBadListsAndRanges) {
    for (const char* text : {"", ",", "8,", ",8", "8,,9", "8:", ":8", "64:8", "0:8", "8:64:1",
                             "8:64:0", "8:64:2:2", "8:x"})
        EXPECT_FALSE(parse_size_list(text)) << text;
}

TEST(ParseSizeList, RefusesMoreSizesThanAnybodyNeeds) {
    std::string text = "1";
    for (std::size_t i = 0; i < max_sizes; ++i)
        text += ",1";
    EXPECT_FALSE(parse_size_list(text));
    EXPECT_TRUE(parse_size_list(text.substr(2)));
}

TEST(FormatSize, ReadsBackAsTheSameNumber) {
    EXPECT_EQ(format_size(0), "0");
    EXPECT_EQ(format_size(8), "8");
    EXPECT_EQ(format_size(4096), "4k");
    EXPECT_EQ(format_size(1536), "1536");
    EXPECT_EQ(format_size(4 << 20), "4m");
    for (const std::uint64_t bytes : {1ULL, 1023ULL, 1024ULL, 3ULL << 20, 5ULL << 30, ~0ULL})
        EXPECT_EQ(parse_size(format_size(bytes)).value(), bytes);
}

}  // namespace
}  // namespace via::tool
