// SPDX-License-Identifier: BSD-3-Clause
// Address vectors that processes share by name.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.hpp"
#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

constexpr std::size_t object_bytes = 64 + 32 * 65536;

Wish sharing() {
    Wish wish;
    wish.caps |= FI_SHARED_AV;
    return wish;
}

class NamedVector : public testing::Test {
  protected:
    NamedVector()
        : name("ofi test/" + std::to_string(getpid())),
          object("/via-av-" + std::to_string(geteuid()) + "-ofi%20test%2f" +
                 std::to_string(getpid())),
          maker(sharing(), Node::NoEndpoint{}),
          reader(sharing(), Node::NoEndpoint{}) {}
    ~NamedVector() override {
        shm_unlink(object.c_str());  // of a test that failed
    }

    int open(Node& node, std::uint64_t flags, const char* as = nullptr) {
        node.av.reset();
        fi_av_attr attributes{};
        attributes.type = FI_AV_TABLE;
        attributes.name = as != nullptr ? as : name.c_str();
        attributes.flags = flags;
        fid_av* opened = nullptr;
        const int result = fi_av_open(node.domain.get(), &attributes, &opened, nullptr);
        if (result == 0) {
            node.av.reset(opened);
            numbers = static_cast<fi_addr_t*>(attributes.map_addr);
        }
        return result;
    }
    static void enable(Node& node) {
        node.open_endpoint();
        check(fi_ep_bind(node.ep.get(), &node.cq->fid, FI_TRANSMIT | FI_RECV), "bind");
        check(fi_ep_bind(node.ep.get(), &node.av->fid, 0), "bind");
        check(fi_enable(node.ep.get()), "fi_enable");
    }
    static sockaddr_in address(std::uint16_t port) {
        sockaddr_in made{};
        made.sin_family = AF_INET;
        made.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        made.sin_port = htons(port);
        return made;
    }
    /// 0: nobody.
    static std::uint16_t port_of(Node& node, fi_addr_t number) {
        sockaddr_in found{};
        std::size_t bytes = sizeof found;
        return fi_av_lookup(node.av.get(), number, &found, &bytes) == 0 ? ntohs(found.sin_port) : 0;
    }
    [[nodiscard]] via::base::UniqueFd raw(int flags) const {
        return via::base::UniqueFd(shm_open(object.c_str(), flags, 0600));
    }

    std::string name;
    std::string object;
    Node maker;
    Node reader;
    fi_addr_t* numbers = nullptr;
};

}  // namespace

TEST_F(NamedVector, OthersReachWhomItsMakerInserted) {
    check(open(maker, 0), "make");
    ASSERT_NE(numbers, nullptr);
    check(open(reader, FI_READ), "open");
    enable(reader);
    Node target;
    EXPECT_EQ(fi_inject(reader.ep.get(), "x", 1, numbers[0]), -FI_EHOSTUNREACH) << "not yet";
    // Inserted after it was opened.
    maker.insert(address(4711));
    const fi_addr_t number = maker.insert(target);
    EXPECT_EQ(numbers[1], number);
    char got[8] = {};
    check(fi_recv(target.ep.get(), got, sizeof got, nullptr, FI_ADDR_UNSPEC, nullptr), "fi_recv");
    until_taken(
        reader, &target, [&] { return fi_inject(reader.ep.get(), "shared", 7, numbers[1]); },
        "fi_inject");
    (void)target.next_good(&reader);
    EXPECT_STREQ(got, "shared");
    EXPECT_EQ(port_of(reader, 0), 4711);
    reader.ep.reset();
}

TEST_F(NamedVector, ReceivesKnowTheNumbers) {
    check(open(maker, 0), "make");
    check(open(reader, FI_READ), "open");
    enable(reader);
    Node sender;
    const fi_addr_t back = sender.insert(reader);
    maker.insert(address(4711));
    const fi_addr_t number = maker.insert(sender);
    char got[8] = {};
    check(fi_recv(reader.ep.get(), got, sizeof got, nullptr, number, nullptr), "fi_recv");
    until_taken(
        sender, &reader, [&] { return fi_inject(sender.ep.get(), "known", 6, back); }, "fi_inject");
    const Event event = reader.next(&sender);
    EXPECT_FALSE(event.is_error);
    EXPECT_EQ(event.source, number);
    reader.ep.reset();
}

TEST_F(NamedVector, ChangesAreSeen) {
    check(open(maker, 0), "make");
    for (std::uint16_t port = 1; port <= 300; ++port)
        maker.insert(address(port));
    check(open(reader, FI_READ), "open");
    EXPECT_EQ(port_of(reader, 0), 1);
    EXPECT_EQ(port_of(reader, 299), 300);
    fi_addr_t gone = 17;
    check(fi_av_remove(maker.av.get(), &gone, 1, 0), "fi_av_remove");
    EXPECT_EQ(port_of(reader, 17), 0);
    EXPECT_EQ(maker.insert(address(999)), 17U);
    EXPECT_EQ(port_of(reader, 17), 999);
    EXPECT_EQ(port_of(reader, 300), 0);
}

TEST_F(NamedVector, IsChangedByItsMakerOnly) {
    check(open(maker, 0), "make");
    maker.insert(address(1));
    check(open(reader, FI_READ), "open");
    const sockaddr_in one = address(2);
    fi_addr_t number = 0;
    EXPECT_EQ(fi_av_insert(reader.av.get(), &one, 1, &number, 0, nullptr), -FI_EOPNOTSUPP);
    EXPECT_EQ(fi_av_insertsvc(reader.av.get(), "127.0.0.1", "80", &number, 0, nullptr),
              -FI_EOPNOTSUPP);
    number = 0;
    EXPECT_EQ(fi_av_remove(reader.av.get(), &number, 1, 0), -FI_EOPNOTSUPP);
    EXPECT_EQ(open(reader, 0), -FI_EADDRINUSE) << "it has one already";
}

TEST_F(NamedVector, LivesAsLongAsItsMakerHasItOpen) {
    EXPECT_EQ(open(reader, FI_READ), -FI_ENOENT);
    check(open(maker, 0), "make");
    struct stat status {};
    ASSERT_EQ(fstat(raw(O_RDONLY).get(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    maker.insert(address(1));
    check(open(reader, FI_READ), "open");
    maker.av.reset();
    EXPECT_LT(raw(O_RDONLY).get(), 0) << "it is still there";
    EXPECT_EQ(port_of(reader, 0), 1) << "who has it open keeps it";
    EXPECT_EQ(open(reader, FI_READ), -FI_ENOENT);
}

TEST_F(NamedVector, AChildThatEndsLeavesItsParentsVector) {
    check(open(maker, 0), "make");
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        // Without the library's threads nothing else can be closed here.
        maker.av.reset();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    check(open(reader, FI_READ), "open");
}

TEST_F(NamedVector, WhatADeadMakerLeftIsMadeAnew) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto left = raw(O_RDWR | O_CREAT | O_EXCL);
        _exit(ftruncate(left.get(), object_bytes) == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
    EXPECT_EQ(open(reader, FI_READ), -FI_EINVAL) << "its maker wrote nothing";
    check(open(maker, 0), "make");
    maker.insert(address(5));
    check(open(reader, FI_READ), "open");
    EXPECT_EQ(port_of(reader, 0), 5);
}

TEST_F(NamedVector, WhatIsNoVectorIsRefused) {
    const auto other = raw(O_RDWR | O_CREAT | O_EXCL);
    ASSERT_GE(other.get(), 0);
    EXPECT_EQ(open(reader, FI_READ), -FI_EINVAL) << "it is empty";
    ASSERT_EQ(ftruncate(other.get(), object_bytes), 0);
    EXPECT_EQ(open(reader, FI_READ), -FI_EINVAL) << "it says nothing";
    const std::vector<char> junk = pattern(4096, 9);
    ASSERT_EQ(pwrite(other.get(), junk.data(), junk.size(), 0), 4096);
    EXPECT_EQ(open(reader, FI_READ), -FI_EINVAL) << "it says something else";
    ASSERT_EQ(fchmod(other.get(), 0666), 0);
    EXPECT_EQ(open(reader, FI_READ), -FI_EACCES) << "anybody may have written it";
    EXPECT_EQ(open(reader, FI_READ, ""), -FI_EINVAL);
    EXPECT_EQ(open(reader, FI_READ, std::string(300, 'n').c_str()), -FI_EINVAL);
    EXPECT_EQ(open(reader, 0, std::string(300, '/').c_str()), -FI_EINVAL);
    fi_av_attr nameless{};
    nameless.flags = FI_READ;
    fid_av* opened = nullptr;
    EXPECT_EQ(fi_av_open(reader.domain.get(), &nameless, &opened, nullptr), -FI_EINVAL);
}

/// The bytes can become anything at any time: then nobody is found, and nothing else happens.
TEST_F(NamedVector, GarbageFindsNobody) {
    check(open(maker, 0), "make");
    for (std::uint16_t port = 1; port <= 3; ++port)
        maker.insert(address(port));
    check(open(reader, FI_READ), "open");
    enable(reader);
    const auto garbler = raw(O_RDWR);
    std::uint64_t changes = 1'000'000;
    const auto garble = [&](std::size_t at, const void* bytes, std::size_t count) {
        ASSERT_EQ(pwrite(garbler.get(), bytes, count, static_cast<off_t>(at)),
                  static_cast<ssize_t>(count));
        ++changes;
        ASSERT_EQ(pwrite(garbler.get(), &changes, sizeof changes, 16), 8);
    };
    const std::vector<char> junk = pattern(32, 5);
    garble(64 + 32, junk.data(), junk.size());
    EXPECT_EQ(port_of(reader, 0), 1);
    EXPECT_EQ(port_of(reader, 1), 2) << "what can not be read changes nothing";
    const std::uint32_t count = 60'000;
    garble(12, &count, sizeof count);
    EXPECT_EQ(port_of(reader, 50'000), 0);
    EXPECT_EQ(fi_inject(reader.ep.get(), "x", 1, 50'000), -FI_EHOSTUNREACH);
    for (const std::uint32_t wild : {65'537U, 0xFFFFFFFFU}) {
        garble(12, &wild, sizeof wild);
        EXPECT_EQ(port_of(reader, 0), 1);
        EXPECT_EQ(port_of(reader, wild - 1), 0);
    }
    for (unsigned seed = 0; seed < 200; ++seed) {
        const std::vector<char> noise = pattern(64 + 32 * 40, seed);
        ASSERT_EQ(pwrite(garbler.get(), noise.data() + 24, noise.size() - 24, 24),
                  static_cast<ssize_t>(noise.size() - 24));
        const std::uint32_t some = seed % 50;
        garble(12, &some, sizeof some);
        for (fi_addr_t number = 0; number < 50; ++number)
            (void)port_of(reader, number);
    }
    ASSERT_EQ(ftruncate(garbler.get(), 100), 0);
    EXPECT_EQ(port_of(reader, 60'000), 0);
    ASSERT_EQ(ftruncate(garbler.get(), 0), 0);
    EXPECT_EQ(port_of(reader, 60'000), 0);
    EXPECT_EQ(fi_inject(reader.ep.get(), "x", 1, 60'000), -FI_EHOSTUNREACH);
    reader.ep.reset();
}

TEST_F(NamedVector, ThereIsRoomForSoMany) {
    check(open(maker, 0), "make");
    std::vector<sockaddr_in> all;
    for (std::uint32_t i = 0; i < 65536; ++i) {
        all.push_back(address(static_cast<std::uint16_t>(i)));
        all.back().sin_addr.s_addr = htonl(0x0A000000 + (i >> 16));
    }
    EXPECT_EQ(fi_av_insert(maker.av.get(), all.data(), all.size(), nullptr, 0, nullptr), 65536);
    fi_addr_t number = 0;
    EXPECT_EQ(fi_av_insert(maker.av.get(), all.data(), 1, &number, 0, nullptr), 0);
    EXPECT_EQ(number, FI_ADDR_NOTAVAIL);
    check(open(reader, FI_READ), "open");
    EXPECT_EQ(port_of(reader, 65535), 65535);
}
