// SPDX-License-Identifier: BSD-3-Clause
// Processes at their limits: the call that needs more fails with VIP_ERROR_RESOURCE and a sentence
// that names the limit and its value, what there was goes on, and with room again the call works.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "system/observe.hpp"
#include "vipl/harness.hpp"

namespace via::test {
namespace {

/// The last call failed as one that has met a limit must.
testing::AssertionResult names_limit(VIP_RETURN code, const std::string& limit,
                                     std::uint64_t value) {
    const std::string text = VipxErrorText();
    const std::string wanted = limit + " is " + std::to_string(value);
    if (code != VIP_ERROR_RESOURCE)
        return testing::AssertionFailure() << VipxReturnName(code) << ", " << text;
    if (text.find(wanted) == std::string::npos)
        return testing::AssertionFailure() << "\"" << text << "\" does not say " << wanted;
    return testing::AssertionSuccess();
}

rlimit limit_of(decltype(RLIMIT_AS) resource) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0) throw std::runtime_error("getrlimit");
    return limit;
}

/// Lowers a soft limit for as long as it lives.
class Lowered {
  public:
    Lowered(decltype(RLIMIT_AS) resource, std::uint64_t value)
        : resource_(resource), before_(limit_of(resource)) {
        rlimit limit = before_;
        limit.rlim_cur = value;
        if (setrlimit(resource, &limit) != 0) throw std::runtime_error("setrlimit");
    }
    Lowered(const Lowered&) = delete;
    Lowered& operator=(const Lowered&) = delete;
    ~Lowered() { EXPECT_EQ(setrlimit(resource_, &before_), 0); }

  private:
    decltype(RLIMIT_AS) resource_;
    rlimit before_;
};

/// Every descriptor that this process may still have.
class AllDescriptors {
  public:
    AllDescriptors() { take(); }
    AllDescriptors(const AllDescriptors&) = delete;
    AllDescriptors& operator=(const AllDescriptors&) = delete;
    ~AllDescriptors() { give_back(taken_.size()); }
    void take() {
        for (;;) {
            const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
            if (fd < 0) break;
            taken_.push_back(fd);
        }
    }
    void give_back(std::size_t count) {
        for (; count > 0 && !taken_.empty(); --count) {
            close(taken_.back());
            taken_.pop_back();
        }
    }

  private:
    std::vector<int> taken_;
};

// ---- a partner without limits ---------------------------------------------------------------

enum class Ask : std::uint8_t { Connect, Echo, Leave };

/// The process at the other end: takes any connection it is asked for, and echoes.
PEER(serve_limited) {
    Nic nic;
    const VIP_PROTECTION_HANDLE tag = make_tag(nic);
    Arena arena(nic, {.tag = tag});
    Address local(nic, unique_discriminator());
    link.put(local);
    constexpr std::size_t bytes = 100;
    std::vector<std::unique_ptr<Vi>> vis;
    std::byte* data = arena.take(bytes);
    VIP_DESCRIPTOR* receive = arena.descriptor();
    VIP_DESCRIPTOR* send = arena.descriptor();
    const Segment part = arena.segment(data, bytes);
    for (;;) {
        const auto ask = link.get<Ask>();
        if (ask == Ask::Leave) break;
        if (ask == Ask::Connect) {
            vis.push_back(std::make_unique<Vi>(nic, ViOptions{.tag = tag}));
            Address remote;
            VIP_VI_ATTRIBUTES attributes{};
            VIP_CONN_HANDLE connection = nullptr;
            VIP_RETURN code = VipConnectWait(nic, local.get(), patience_ms, remote.get(),
                                             &attributes, &connection);
            EXPECT_VIP(VIP_SUCCESS, code);
            if (code == VIP_SUCCESS) code = VipConnectAccept(connection, *vis.back());
            // The other end has none: this one must not stay connected.
            const bool expected = link.get<bool>();
            if (expected) {
                EXPECT_VIP(VIP_SUCCESS, code);
            } else {
                EXPECT_TRUE(code == VIP_SUCCESS ? vis.back()->becomes(VIP_STATE_ERROR)
                                                : vis.back()->state() == VIP_STATE_IDLE)
                    << VipxReturnName(code);
                vis.pop_back();
            }
        } else {
            const auto which = link.get<std::uint32_t>();
            fill(receive, {&part, 1});
            EXPECT_VIP(VIP_SUCCESS, VipPostRecv(*vis.at(which), receive, arena.handle()));
            link.meet();
            EXPECT_VIP(VIP_SUCCESS, vis[which]->await_recv().code);
            fill(send, {&part, 1});
            EXPECT_VIP(VIP_SUCCESS, VipPostSend(*vis[which], send, arena.handle()));
            EXPECT_VIP(VIP_SUCCESS, vis[which]->await_send().code);
        }
        link.meet();
    }
}

/// A process with limits and one without, connected.
class Limited {
  public:
    explicit Limited(const PeerProcess::Environment& environment = {})
        : partner_("serve_limited", environment),
          tag_(make_tag(nic_)),
          arena_(nic_, {.bytes = 1U << 16, .tag = tag_}) {
        there_ = partner_.link.get<Address>();
        data_ = arena_.take(bytes);
        echo_ = arena_.take(bytes);
        send_ = arena_.descriptor();
        receive_ = arena_.descriptor();
        if (connect() != VIP_SUCCESS) throw std::runtime_error(VipxErrorText());
    }
    ~Limited() {
        partner_.link.put(Ask::Leave);
        EXPECT_EQ(partner_.wait(), 0);
    }
    Limited(const Limited&) = delete;
    Limited& operator=(const Limited&) = delete;

    [[nodiscard]] Nic& nic() { return nic_; }
    [[nodiscard]] VIP_PROTECTION_HANDLE tag() const { return tag_; }

    /// One more connection.
    [[nodiscard]] VIP_RETURN connect() {
        auto vi = std::make_unique<Vi>(nic_, ViOptions{.tag = tag_});
        partner_.link.put(Ask::Connect);
        Address here(nic_, unique_discriminator());
        const VIP_RETURN code = request_until_matched(*vi, here, there_);
        const std::string text = VipxErrorText();
        partner_.link.put(code == VIP_SUCCESS);
        partner_.link.meet();
        if (code == VIP_SUCCESS)
            vis_.push_back(std::move(vi));
        else
            EXPECT_EQ(vi->state(), VIP_STATE_IDLE);
        return code;
    }
    [[nodiscard]] std::uint32_t connections() const {
        return static_cast<std::uint32_t>(vis_.size());
    }
    /// A message there and back over each connection.
    void expect_traffic() {
        for (std::uint32_t which = 0; which < vis_.size(); ++which) {
            Vi& vi = *vis_[which];
            const Segment source = arena_.segment(data_, bytes);
            const Segment target = arena_.segment(echo_, bytes);
            const std::uint32_t seed = ++seed_;
            fill_pattern(data_, bytes, seed);
            std::memset(echo_, 0, bytes);
            fill(receive_, {&target, 1});
            EXPECT_VIP(VIP_SUCCESS, VipPostRecv(vi, receive_, arena_.handle()));
            partner_.link.put(Ask::Echo);
            partner_.link.put(which);
            partner_.link.meet();
            fill(send_, {&source, 1});
            EXPECT_VIP(VIP_SUCCESS, VipPostSend(vi, send_, arena_.handle()));
            EXPECT_VIP(VIP_SUCCESS, vi.await_send().code);
            EXPECT_VIP(VIP_SUCCESS, vi.await_recv().code);
            EXPECT_TRUE(has_pattern(echo_, bytes, seed));
            partner_.link.meet();
        }
    }

  private:
    static constexpr std::size_t bytes = 100;
    PeerProcess partner_;
    Nic nic_;
    VIP_PROTECTION_HANDLE tag_;
    Arena arena_;
    Address there_;
    std::byte* data_ = nullptr;
    std::byte* echo_ = nullptr;
    VIP_DESCRIPTOR* send_ = nullptr;
    VIP_DESCRIPTOR* receive_ = nullptr;
    std::uint32_t seed_ = 0;
    std::vector<std::unique_ptr<Vi>> vis_;
};

// ---- descriptors ----------------------------------------------------------------------------

PEER(open_with_few_descriptors) {
    // One more each time: every step of the start meets the limit once.
    VIP_NIC_HANDLE nic = nullptr;
    std::uint64_t allowed = 3;
    VIP_RETURN code = VIP_NOT_DONE;
    for (; allowed < 40; ++allowed) {
        const Lowered lowered(RLIMIT_NOFILE, allowed);
        code = VipOpenNic(device(), &nic);
        if (code == VIP_SUCCESS) break;
        EXPECT_TRUE(names_limit(code, "RLIMIT_NOFILE", allowed));
    }
    ASSERT_VIP(VIP_SUCCESS, code);
    EXPECT_GT(allowed, 5U);
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic));
    Pair pair;
    expect_traffic(pair);
}

TEST(Limits, OpeningTheNicWithoutDescriptors) {
    const Nic nic;  // there is an agent
    PeerProcess child("open_with_few_descriptors");
    EXPECT_EQ(child.wait(), 0);
    // And where one must be started first.
    const std::string socket = std::string(std::getenv("VIA_AGENT_SOCKET")) + "/second";
    PeerProcess starter("open_with_few_descriptors", {{"VIA_AGENT_SOCKET", socket}});
    EXPECT_EQ(starter.wait(), 0);
}

PEER(run_out_of_descriptors) {
    Limited limited;
    constexpr std::uint64_t allowed = 128;
    const Lowered lowered(RLIMIT_NOFILE, allowed);
    AllDescriptors all;
    limited.expect_traffic();

    // A connection brings descriptors.
    unsigned freed = 0;
    for (; freed < 16; ++freed) {
        const VIP_RETURN code = limited.connect();
        limited.expect_traffic();
        if (code == VIP_SUCCESS) break;
        EXPECT_TRUE(names_limit(code, "RLIMIT_NOFILE", allowed));
        all.give_back(1);
    }
    EXPECT_GT(freed, 0U);
    EXPECT_EQ(limited.connections(), 2U);

    // So does the first memory of a tag.
    all.take();
    VIP_PROTECTION_HANDLE tag = make_tag(limited.nic());
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = tag;
    VIP_PVOID address = nullptr;
    VIP_MEM_HANDLE handle = 0;
    EXPECT_TRUE(names_limit(VipxAllocMem(limited.nic(), 4096, &attributes, &address, &handle),
                            "RLIMIT_NOFILE", allowed));
    limited.expect_traffic();
    all.give_back(1);
    EXPECT_VIP(VIP_SUCCESS, VipxAllocMem(limited.nic(), 4096, &attributes, &address, &handle));
    std::memset(address, 1, 4096);
    EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(limited.nic(), address, handle));

    // These need none.
    all.take();
    std::vector<std::byte> memory(4096);
    EXPECT_VIP(VIP_SUCCESS,
               VipRegisterMem(limited.nic(), memory.data(), 4096, &attributes, &handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(limited.nic(), memory.data(), handle));
    { const Vi vi(limited.nic()); }
    limited.expect_traffic();
}

TEST(Limits, RunningOutOfDescriptors) {
    PeerProcess child("run_out_of_descriptors");
    EXPECT_EQ(child.wait(), 0);
}

// ---- the agent's descriptors ----------------------------------------------------------------

PEER(open_and_say) {
    VIP_NIC_HANDLE nic = nullptr;
    const VIP_RETURN code = VipOpenNic(device(), &nic);
    std::array<char, 512> text{};
    std::strncpy(text.data(), VipxErrorText(), text.size() - 1);
    link.put(code);
    link.put(text);
    if (code == VIP_SUCCESS) {
        EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic));
    }
}

TEST(Limits, TheAgentOutOfDescriptorsServesThoseItHas) {
    Pair pair;
    const pid_t agent = agent_status().pid;
    rlimit before{};
    ASSERT_EQ(prlimit(agent, RLIMIT_NOFILE, nullptr, &before), 0);
    // What it has, it keeps; the next is too much.
    const rlimit tight{open_descriptors(agent), before.rlim_max};
    ASSERT_EQ(prlimit(agent, RLIMIT_NOFILE, &tight, nullptr), 0);
    {
        PeerProcess child("open_and_say");
        const auto code = child.link.get<VIP_RETURN>();
        const std::string text = child.link.get<std::array<char, 512>>().data();
        EXPECT_EQ(code, VIP_ERROR_RESOURCE);
        EXPECT_NE(text.find("RLIMIT_NOFILE is " + std::to_string(tight.rlim_cur)),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("kernel agent"), std::string::npos) << text;
        EXPECT_EQ(child.wait(), 0);
    }
    expect_traffic(pair);
    ASSERT_EQ(prlimit(agent, RLIMIT_NOFILE, &before, nullptr), 0);
    PeerProcess child("open_and_say");
    EXPECT_EQ(child.link.get<VIP_RETURN>(), VIP_SUCCESS);
    static_cast<void>(child.link.get<std::array<char, 512>>());
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(agent_status().pid, agent);
}

// ---- memory ---------------------------------------------------------------------------------

std::uint64_t address_space_bytes() {
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0;
    file >> pages;
    return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Address space that can be given back.
class Reserve {
  public:
    explicit Reserve(std::size_t bytes)
        : bytes_(bytes),
          address_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (address_ == MAP_FAILED) throw std::runtime_error("no address space");
    }
    Reserve(const Reserve&) = delete;
    Reserve& operator=(const Reserve&) = delete;
    ~Reserve() { munmap(address_, bytes_); }

  private:
    std::size_t bytes_;
    void* address_;
};

/// Free places in the heap, for what the test itself needs while large things do not fit.
class SmallChange {
  public:
    SmallChange() {
        std::vector<std::unique_ptr<std::byte[]>> pieces;
        for (int i = 0; i < 500; ++i)
            pieces.emplace_back(new std::byte[4000]);
        last_ = std::move(pieces.back());  // or the heap's end would go back to the system
    }

  private:
    std::unique_ptr<std::byte[]> last_;
};

PEER(run_out_of_address_space) {
    Limited limited;
    limited.expect_traffic();
    const std::uint32_t held = own_entry(agent_status()).connections;
    VIP_PVOID address = nullptr;
    VIP_MEM_HANDLE handle = 0;
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = limited.tag();
    constexpr std::size_t much = 256U << 20;
    const SmallChange change;
    auto reserve = std::make_unique<Reserve>(2 * much);
    const std::uint64_t allowed = address_space_bytes();
    const Lowered lowered(RLIMIT_AS, allowed);

    EXPECT_TRUE(names_limit(VipxAllocMem(limited.nic(), much, &attributes, &address, &handle),
                            "RLIMIT_AS", allowed));
    limited.expect_traffic();
    // The channel of a connection does not fit either; nobody is left half connected.
    const VIP_RETURN code = limited.connect();
    EXPECT_TRUE(names_limit(code, "RLIMIT_AS", allowed));
    EXPECT_EQ(own_entry(agent_status()).connections, held);
    limited.expect_traffic();

    reserve.reset();
    EXPECT_VIP(VIP_SUCCESS, limited.connect());
    limited.expect_traffic();
    ASSERT_VIP(VIP_SUCCESS, VipxAllocMem(limited.nic(), much, &attributes, &address, &handle));
    std::memset(address, 1, 4096);
    EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(limited.nic(), address, handle));
    limited.expect_traffic();
}

PEER(open_with_little_address_space) {
    // More and more, until it is enough: every step of the start meets the limit.
    const std::uint64_t start = address_space_bytes();
    VIP_NIC_HANDLE nic = nullptr;
    VIP_RETURN code = VIP_NOT_DONE;
    unsigned failures = 0;
    for (std::uint64_t more = 0; more < (64U << 20); more += 1U << 18) {
        const Lowered lowered(RLIMIT_AS, start + more);
        code = VipOpenNic(device(), &nic);
        if (code == VIP_SUCCESS) break;
        ++failures;
        EXPECT_TRUE(names_limit(code, "RLIMIT_AS", start + more));
    }
    ASSERT_VIP(VIP_SUCCESS, code);
    EXPECT_GT(failures, 0U);
    EXPECT_VIP(VIP_SUCCESS, VipCloseNic(nic));
    Pair pair;
    expect_traffic(pair);
}

TEST(Limits, RunningOutOfAddressSpace) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "sanitizers need address space without limits";
#endif
    PeerProcess child("run_out_of_address_space");
    EXPECT_EQ(child.wait(), 0);
    const Nic nic;  // there is an agent
    PeerProcess opener("open_with_little_address_space");
    EXPECT_EQ(opener.wait(), 0);
}

// ---- locked memory --------------------------------------------------------------------------

/// Root may lock more than its limit; from here on this thread and those it starts may not.
void give_up_unlimited_locking() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capget, &header, sets) != 0) throw std::runtime_error("capget");
    for (auto* set : {&sets[0].effective, &sets[0].permitted, &sets[0].inheritable})
        *set &= ~(1U << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, sets) != 0) throw std::runtime_error("capset");
}

PEER(run_out_of_locked_memory) {
    give_up_unlimited_locking();
    constexpr std::uint64_t allowed = 1U << 20;
    const Lowered lowered(RLIMIT_MEMLOCK, allowed);
    Limited limited;
    limited.expect_traffic();
    VIP_MEM_ATTRIBUTES attributes{};
    attributes.Ptag = limited.tag();
    constexpr std::size_t half = allowed / 2;
    constexpr std::size_t page = 4096;
    const std::unique_ptr<std::byte[]> memory(new std::byte[2 * half + page]);
    std::byte* first = memory.get();
    std::byte* second = first + half + page;
    VIP_MEM_HANDLE first_handle = 0;
    VIP_MEM_HANDLE second_handle = 0;
    ASSERT_VIP(VIP_SUCCESS, VipRegisterMem(limited.nic(), first, half, &attributes, &first_handle));
    EXPECT_TRUE(
        names_limit(VipRegisterMem(limited.nic(), second, half - page, &attributes, &second_handle),
                    "RLIMIT_MEMLOCK", allowed));
    limited.expect_traffic();
    EXPECT_VIP(VIP_SUCCESS, limited.connect());
    limited.expect_traffic();
    VIP_PVOID address = nullptr;
    EXPECT_TRUE(
        names_limit(VipxAllocMem(limited.nic(), half, &attributes, &address, &second_handle),
                    "RLIMIT_MEMLOCK", allowed));
    EXPECT_EQ(own_entry(agent_status()).kmem_bytes, 0U);
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(limited.nic(), first, first_handle));
    EXPECT_VIP(VIP_SUCCESS,
               VipRegisterMem(limited.nic(), second, half - page, &attributes, &second_handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(limited.nic(), second, second_handle));
    EXPECT_VIP(VIP_SUCCESS,
               VipxAllocMem(limited.nic(), half, &attributes, &address, &second_handle));
    EXPECT_VIP(VIP_SUCCESS, VipxFreeMem(limited.nic(), address, second_handle));
    limited.expect_traffic();
}

TEST(Limits, RunningOutOfLockedMemory) {
    PeerProcess child("run_out_of_locked_memory", {{"VIA_PIN_MEMORY", "1"}});
    EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace via::test
