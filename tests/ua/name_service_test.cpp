// SPDX-License-Identifier: BSD-3-Clause
#include "ua/name_service.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "na/shm/child_process.hpp"

using namespace via::ua;
using via::test::ChildProcess;

namespace {

struct Parsed {
    std::vector<HostEntry> entries;
    std::vector<std::string> problems;
};

Parsed parse(std::string_view text) {
    Parsed parsed;
    parsed.entries = parse_hosts(text, parsed.problems);
    return parsed;
}

TEST(HostsFile, HoldsNamesAndAddresses) {
    const Parsed parsed = parse("alpha 02:00:00:00:00:01\nbeta\t0a:Bb:cC:DD:ee:ff\n");
    ASSERT_EQ(parsed.entries.size(), 2U);
    EXPECT_TRUE(parsed.problems.empty());
    EXPECT_EQ(parsed.entries[0].name, "alpha");
    EXPECT_EQ(parsed.entries[0].address, (HostAddress{2, 0, 0, 0, 0, 1}));
    EXPECT_EQ(parsed.entries[1].name, "beta");
    EXPECT_EQ(parsed.entries[1].address, (HostAddress{0x0A, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF}));
}

TEST(HostsFile, MayHaveCommentsEmptyLinesAndOddSpaces) {
    const Parsed parsed = parse(
        "# all\n\n   \n\t gamma \t 1:2:3:4:5:6  # here\r\n#delta 02:00:00:00:00:01\n"
        "epsilon 02:00:00:00:00:02");
    EXPECT_TRUE(parsed.problems.empty());
    ASSERT_EQ(parsed.entries.size(), 2U);
    EXPECT_EQ(parsed.entries[0].name, "gamma");
    EXPECT_EQ(parsed.entries[0].address, (HostAddress{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(parsed.entries[1].name, "epsilon") << "the last line needs no end";
}

TEST(HostsFile, TellsBadLinesByNumberAndGoesOn) {
    const char* bad[] = {
        "name",
        "name 02:00:00:00:00",
        "name 02:00:00:00:00:01:02",
        "name 02:00:00:00:00:",
        "name 02:00:00:00:00:0g",
        "name 02:00:00:00:00:012",
        "name 02-00-00-00-00-01",
        "name 02:00:00:00:00:01 more",
        "name 02:00:00:00::01",
        "name -1:00:00:00:00:01",
        "name +1:00:00:00:00:01",
        "name 0x:00:00:00:00:01",
        "name :02:00:00:00:00:01",
        "02:00:00:00:00:01",
        "name 02:00:00:00:00:01,",
    };
    for (const char* line : bad) {
        SCOPED_TRACE(line);
        const Parsed parsed =
            parse("good 02:00:00:00:00:09\n" + std::string(line) + "\nfine 02:00:00:00:00:0a\n");
        ASSERT_EQ(parsed.entries.size(), 2U);
        EXPECT_EQ(parsed.entries[0].name, "good");
        EXPECT_EQ(parsed.entries[1].name, "fine");
        ASSERT_EQ(parsed.problems.size(), 1U);
        EXPECT_EQ(parsed.problems[0].find("line 2"), 0U) << parsed.problems[0];
    }
}

TEST(HostsFile, MayBeAnyBytes) {
    std::string text("nul 02:00:00:00:00:01\0x\nother\0name 02:00:00:00:00:02\n", 51);
    const Parsed parsed = parse(text);
    ASSERT_EQ(parsed.entries.size(), 1U);
    EXPECT_EQ(parsed.entries[0].name, std::string("other\0name", 10));
    EXPECT_EQ(parsed.problems.size(), 1U);
    EXPECT_TRUE(parse("").entries.empty());
    EXPECT_TRUE(parse(std::string(100000, 'x')).entries.empty());
}

/// Runs where VIA_HOSTS_FILE is a file with this text; settings are read once per process.
int with_hosts(const std::string& text, const std::function<int()>& body) {
    ChildProcess child([&] {
        char path[] = "/tmp/viaduct-hosts-XXXXXX";
        const int file = mkstemp(path);
        if (file < 0) return 100;
        const bool written =
            ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        close(file);
        setenv("VIA_HOSTS_FILE", path, 1);
        setenv("VIA_LOG", "silent", 1);
        const int result = written ? body() : 101;
        unlink(path);
        return result;
    });
    return child.wait();
}

constexpr HostAddress own{2, 9, 9, 9, 9, 9};

TEST(NameService, TakesTheFileFirst) {
    const std::string text =
        "alpha 02:00:00:00:00:01\nlocalhost 02:00:00:00:00:03\nalpha 02:00:00:00:00:02\n";
    EXPECT_EQ(with_hosts(text,
                         [] {
                             const NameService names(own);
                             const auto first = names.address_of("alpha", 0);
                             const auto second = names.address_of("alpha", 1);
                             const auto third = names.address_of("alpha", 2);
                             const auto local = names.address_of("localhost", 0);
                             if (!first || first.value()[5] != 1) return 1;
                             if (!second || second.value()[5] != 2) return 2;
                             if (third.ok()) return 3;
                             if (third.error().code != via::base::Code::NameService) return 4;
                             if (!local || local.value()[5] != 3) return 5;
                             return 0;
                         }),
              0);
}

TEST(NameService, KnowsThisHost) {
    EXPECT_EQ(with_hosts("",
                         [] {
                             const NameService names(own);
                             char name[256] = {};
                             gethostname(name, sizeof name - 1);
                             const auto local = names.address_of("localhost", 0);
                             const auto by_name = names.address_of(name, 0);
                             if (!local || local.value() != own) return 1;
                             if (!by_name || by_name.value() != own) return 2;
                             if (names.address_of("localhost", 1).ok()) return 3;
                             if (names.address_of("no-such-host.invalid", 0).ok()) return 4;
                             if (names.address_of("", 0).ok()) return 5;
                             return 0;
                         }),
              0);
}

TEST(NameService, FindsNamesOfAddresses) {
    EXPECT_EQ(with_hosts("alpha 02:00:00:00:00:01\nbeta 02:00:00:00:00:01\n",
                         [] {
                             const NameService names(own);
                             const auto found = names.name_of({2, 0, 0, 0, 0, 1});
                             if (!found || found.value() != "alpha") return 1;
                             const auto mine = names.name_of(own);
                             if (!mine || mine.value().empty()) return 2;
                             if (mine.value().find('.') != std::string::npos) return 3;
                             const auto nobody = names.name_of({1, 1, 1, 1, 1, 1});
                             if (nobody.ok()) return 4;
                             return 0;
                         }),
              0);
}

TEST(NameService, NeedsNoFile) {
    ChildProcess child([] {
        setenv("VIA_HOSTS_FILE", "/nonexistent/hosts", 1);
        return NameService(own).address_of("localhost", 0).ok() ? 0 : 1;
    });
    EXPECT_EQ(child.wait(), 0);
}

}  // namespace
