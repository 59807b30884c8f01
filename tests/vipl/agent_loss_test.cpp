// SPDX-License-Identifier: BSD-3-Clause
// What a program sees of a kernel agent that is gone: calls that need one say VIP_ERROR_RESOURCE,
// established connections do not notice, and with a new agent everything works again.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "vipl/harness.hpp"

namespace via::test {
namespace {

/// The process that listens on an abstract socket, or -1.
pid_t listener_of(const std::string& name) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    ucred credentials{};
    credentials.pid = -1;
    socklen_t length = sizeof credentials;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        credentials.pid = -1;
    }
    close(fd);
    return credentials.pid;
}

std::string agent_program() {
    if (const char* given = std::getenv("VIA_AGENT_PROGRAM"); given != nullptr && *given != '\0') {
        return given;
    }
    char self[4096] = {};
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return {};
    const std::string path = self;
    return path.substr(0, path.rfind('/')) + "/viad";
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

void kill_agent() {
    const std::string socket_name = environment("VIA_AGENT_SOCKET");
    const pid_t agent = listener_of(socket_name);
    ASSERT_GT(agent, 1) << "nobody listens on " << socket_name;
    ASSERT_EQ(kill(agent, SIGKILL), 0);
    ASSERT_TRUE(eventually([&] { return listener_of(socket_name) == -1; }));
}

PEER(live_without_agent) {
    const std::string program = environment("VIA_AGENT_PROGRAM");
    const std::string real = environment("VIA_TEST_REAL_AGENT");
    Pair pair;
    Nic& nic = pair.client.nic;
    std::vector<std::byte> memory(4096);
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, {});
    VIP_MEM_HANDLE handle = 0;
    VIP_VI_HANDLE vi = nullptr;
    VIP_CONN_HANDLE connection = nullptr;
    VIP_PVOID address = nullptr;
    Address here(nic, unique_discriminator());
    Address there(nic, unique_discriminator());
    Address room;
    Vi idle(nic);
    Vi region_owner(nic);
    VIP_MEM_ATTRIBUTES memory_attributes{};

    ASSERT_EQ(unlink(program.c_str()), 0);
    kill_agent();

    EXPECT_VIP(VIP_ERROR_RESOURCE, VipRegisterMem(nic, memory.data(), 4096, nullptr, &handle));
    EXPECT_VIP(VIP_ERROR_RESOURCE,
               VipSetMemAttributes(nic, pair.client.arena.base(), pair.client.arena.handle(),
                                   &memory_attributes));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipxAllocMem(nic, 4096, nullptr, &address, &handle));
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    EXPECT_VIP(VIP_ERROR_RESOURCE,
               VipConnectWait(nic, here.get(), 1000, room.get(), &attributes, &connection));
    EXPECT_VIP(VIP_ERROR_RESOURCE,
               VipConnectRequest(idle, here.get(), there.get(), 1000, &attributes));
    EXPECT_EQ(idle.state(), VIP_STATE_IDLE);
    EXPECT_VIP(VIP_ERROR_RESOURCE, VipConnectPeerRequest(idle, here.get(), there.get(), 1000));
    EXPECT_EQ(idle.state(), VIP_STATE_IDLE);
    // What is connected stays connected.
    for (int i = 0; i < 10; ++i)
        expect_traffic(pair);

    ASSERT_EQ(symlink(real.c_str(), program.c_str()), 0);
    EXPECT_VIP(VIP_SUCCESS, VipRegisterMem(nic, memory.data(), 4096, nullptr, &handle));
    EXPECT_VIP(VIP_SUCCESS, VipDeregisterMem(nic, memory.data(), handle));
    EXPECT_VIP(VIP_SUCCESS, connect(idle, region_owner).request);
    for (int i = 0; i < 10; ++i)
        expect_traffic(pair);
    kill_agent();
    // And with the program in place nobody notices at all.
    EXPECT_VIP(VIP_SUCCESS, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(vi));
    for (int i = 0; i < 10; ++i)
        expect_traffic(pair);
}

TEST(AgentLoss, IsAResourceErrorUntilThereIsANewOne) {
    NEEDS_TWO_PROCESSES();
    char directory[] = "/tmp/vipl_agent_XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    const std::string link_path = std::string(directory) + "/viad";
    const std::string real = agent_program();
    ASSERT_EQ(symlink(real.c_str(), link_path.c_str()), 0);
    PeerProcess peer("live_without_agent",
                     {{"VIA_AGENT_SOCKET", "@viaduct/test/loss/" + std::to_string(getpid())},
                      {"VIA_AGENT_PROGRAM", link_path},
                      {"VIA_AGENT_TIMEOUT_MS", "20000"},
                      {"VIA_LOG", "silent"},
                      {"VIA_TEST_REAL_AGENT", real}});
    EXPECT_EQ(peer.wait(), 0);
    unlink(link_path.c_str());
    rmdir(directory);
}

}  // namespace
}  // namespace via::test
