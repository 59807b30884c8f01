// SPDX-License-Identifier: BSD-3-Clause
// Two hosts, each a network namespace with its own kernel agent, joined by a pair of virtual
// Ethernet interfaces. The namespaces have no names: they vanish with their processes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <optional>

#include "ka/client.hpp"
#include "ka/harness.hpp"
#include "ka/host_address.hpp"

namespace via::ka::test {
namespace {

using base::Code;
using base::Deadline;

/// A namespace lives as long as a process in it.
class Namespace {
  public:
    Namespace() {
        Signal made;
        holder_.emplace([&] {
            if (unshare(CLONE_NEWNET) != 0) return 1;
            made.give();
            for (;;)
                pause();
        });
        if (made.take())
            file_ =
                base::UniqueFd(open(("/proc/" + std::to_string(holder_->pid()) + "/ns/net").c_str(),
                                    O_RDONLY | O_CLOEXEC));
    }
    [[nodiscard]] bool valid() const { return file_.valid(); }
    [[nodiscard]] pid_t pid() const { return holder_->pid(); }
    /// A process in it.
    [[nodiscard]] Child run(const std::function<int()>& body) const {
        return Child([&] {
            if (setns(file_.get(), CLONE_NEWNET) != 0) return 99;
            return body();
        });
    }

  private:
    std::optional<Child> holder_;
    base::UniqueFd file_;
};

int command(const std::string& line) {
    return std::system((line + " >/dev/null 2>&1").c_str()) == 0 ? 0 : 1;
}

/// What the processes of a test tell each other and the test.
struct Shared {
    SessionKey client_key;
    SessionKey server_key;
    std::array<std::uint64_t, 2> connections;
};

class TwoHosts : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        const pid_t probe = fork();
        if (probe == 0) _exit(unshare(CLONE_NEWNET) == 0 ? 0 : 1);
        int status = 1;
        waitpid(probe, &status, 0);
        if (status != 0) return;
        a = new Namespace();
        b = new Namespace();
        if (!a->valid() || !b->valid()) return;
        const std::string other = std::to_string(b->pid());
        linked = a->run([&] {
                      return command("ip link add v0 type veth peer name v0 netns " + other) +
                             command("ip address add 10.77.0.1/24 dev v0") +
                             command("ip address add fd77::1/64 dev v0 nodad") +
                             command("ip link set v0 up") + command("ip link set lo up");
                  }).wait() == 0 &&
                 b->run([&] {
                      return command("ip address add 10.77.0.2/24 dev v0") +
                             command("ip address add fd77::2/64 dev v0 nodad") +
                             command("ip link set v0 up") + command("ip link set lo up");
                  }).wait() == 0;
    }
    static void TearDownTestSuite() {
        delete a;
        delete b;
        a = b = nullptr;
    }
    void SetUp() override {
        if (a == nullptr) GTEST_SKIP() << "no right to make network namespaces";
        ASSERT_TRUE(linked) << "the namespaces could not be joined with ip(8)";
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        shared = static_cast<Shared*>(memory);
    }
    void TearDown() override {
        if (a == nullptr || !linked) return;
        stop_agents();
        if (shared != nullptr) munmap(shared, sizeof(Shared));
    }
    static void stop_agents() {
        for (const Namespace* host : {a, b})
            EXPECT_EQ(host->run([] {
                              stop_agent();
                              return testing::Test::HasFailure() ? 1 : 0;
                          })
                          .wait(),
                      0);
    }

    static inline Namespace* a = nullptr;
    static inline Namespace* b = nullptr;
    static inline bool linked = false;
    Shared* shared = nullptr;
};

NetAddress place(const char* host, std::string_view discriminator) {
    AgentAddress address;
    address.port = usual_net_port(geteuid());
    address.family = std::strchr(host, ':') != nullptr ? 6 : 4;
    inet_pton(address.family == 6 ? AF_INET6 : AF_INET, host, address.ip.data());
    NetAddress result = ka::test::address("", discriminator);
    set_host(result, address);
    return result;
}

ConnectOffer net_offer(std::uint32_t vi, const NetAddress& local, const NetAddress& remote) {
    ConnectOffer result = offer(vi, "", "");
    result.local = local;
    result.remote = remote;
    result.fabric = fabric_net;
    result.channel_bytes = 0;
    return result;
}

/// In a child a failed expectation is an exit status; what went wrong is on standard error.
int verdict() {
    return testing::Test::HasFailure() ? 1 : 0;
}

#define CHECK_OK(result)                                                                    \
    if (!(result).ok()) {                                                                   \
        std::fprintf(stderr, "line %d: %s\n", __LINE__, (result).error().sentence.c_str()); \
        return 1;                                                                           \
    }

/// Asks until somebody waits there.
base::Result<Established> connect(const TestProcess& process, const ConnectOffer& asked,
                                  Deadline deadline = soon()) {
    for (;;) {
        auto made = process->connect_request(asked, deadline);
        const bool early = !made && (made.error().code == Code::NoMatch ||
                                     made.error().code == Code::NotReachable);
        if (!early || soon().expired() || deadline.expired()) return made;
        const timespec breath{0, 2'000'000};
        nanosleep(&breath, nullptr);
    }
}

bool fails_with(const base::Result<Established>& result, Code code, std::string_view words) {
    if (!result && result.error().code == code &&
        result.error().sentence.find(words) != std::string::npos)
        return true;
    std::fprintf(stderr, "instead of '%s': %s\n", std::string(words).c_str(),
                 result ? "a connection" : result.error().sentence.c_str());
    return false;
}

class ByAddress : public TwoHosts,
                  public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(ByAddress, ConnectAndAccept) {
    const NetAddress at_a = place(GetParam().first, "c");
    const NetAddress at_b = place(GetParam().second, "s");
    Signal seen;
    Child server = b->run([&] {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        auto incoming = process->connect_wait(at_b, soon(), nullptr, all_fabrics);
        CHECK_OK(incoming);
        EXPECT_EQ(incoming.value().fabric, fabric_net);
        EXPECT_EQ(incoming.value().remote, at_a);
        EXPECT_EQ(incoming.value().remote_parameters[0], 42);
        auto made =
            process->connect_accept(incoming.value().request, net_offer(vi, at_b, at_a), soon());
        CHECK_OK(made);
        shared->server_key = made.value().session_key;
        shared->connections[1] = made.value().connection;
        EXPECT_FALSE(made.value().requester);
        EXPECT_EQ(made.value().peer.pid, 0);
        EXPECT_FALSE(made.value().channel.valid());
        EXPECT_FALSE(made.value().peer.pidfd.valid());
        // It is there for the next agent too, which knows nothing of the other host.
        kill_agent();
        EXPECT_TRUE(process->create_vi().ok());
        EXPECT_EQ(process->status().value().processes.at(0).connections, 1U);
        EXPECT_TRUE(process->lost_connections().empty());
        EXPECT_TRUE(seen.take());
        process->disconnected(made.value().connection);
        EXPECT_EQ(process->status().value().processes.at(0).connections, 0U);
        return verdict();
    });
    Child client = a->run([&] {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        auto made = connect(process, net_offer(vi, at_a, at_b));
        seen.give();
        CHECK_OK(made);
        shared->client_key = made.value().session_key;
        shared->connections[0] = made.value().connection;
        EXPECT_TRUE(made.value().requester);
        EXPECT_EQ(made.value().remote_address, at_b);
        EXPECT_EQ(made.value().remote_parameters[0], 42);
        EXPECT_EQ(made.value().peer.uid, 0U);
        process->disconnected(made.value().connection);
        return verdict();
    });
    EXPECT_EQ(client.wait(), 0);
    EXPECT_EQ(server.wait(), 0);
    EXPECT_EQ(shared->client_key, shared->server_key);
    EXPECT_NE(shared->client_key, SessionKey{});
    EXPECT_EQ(shared->connections[0], shared->connections[1]);
}
INSTANTIATE_TEST_SUITE_P(TwoHosts, ByAddress,
                         testing::Values(std::pair{"10.77.0.1", "10.77.0.2"},
                                         std::pair{"fd77::1", "fd77::2"}));

TEST_F(TwoHosts, RejectNoMatchAndTimeout) {
    const NetAddress at_a = place("10.77.0.1", "c");
    const NetAddress at_b = place("10.77.0.2", "s");
    Signal asked;
    Child server = b->run([&] {
        TestProcess process;
        auto incoming = process->connect_wait(at_b, soon(), nullptr, fabric_net);
        CHECK_OK(incoming);
        EXPECT_TRUE(process->connect_reject(incoming.value().request).ok());
        // The next one it leaves without an answer.
        auto next = process->connect_wait(at_b, soon(), nullptr, fabric_net);
        CHECK_OK(next);
        EXPECT_TRUE(asked.take());
        const std::uint32_t vi = process->create_vi().value();
        const auto late =
            process->connect_accept(next.value().request, net_offer(vi, at_b, at_a), soon());
        EXPECT_TRUE(fails_with(late, Code::Timeout, "given up"));
        return verdict();
    });
    Child client = a->run([&] {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        EXPECT_TRUE(fails_with(connect(process, net_offer(vi, at_a, at_b)), Code::Rejected, ""));
        EXPECT_TRUE(fails_with(
            process->connect_request(net_offer(vi, at_a, place("10.77.0.2", "nobody")), soon()),
            Code::NoMatch, "nobody waits"));
        EXPECT_TRUE(fails_with(
            connect(process, net_offer(vi, at_a, at_b), Deadline::after_milliseconds(500)),
            Code::Timeout, ""));
        asked.give();
        return verdict();
    });
    EXPECT_EQ(client.wait(), 0);
    EXPECT_EQ(server.wait(), 0);
}

TEST_F(TwoHosts, WhoCanNotBeReachedIsToldWhy) {
    const NetAddress at_a = place("10.77.0.1", "c");
    EXPECT_EQ(
        a->run([&] {
             TestProcess process;
             const std::uint32_t vi = process->create_vi().value();
             const auto ask = [&](const char* host, std::uint64_t milliseconds) {
                 return process->connect_request(net_offer(vi, at_a, place(host, "s")),
                                                 Deadline::after_milliseconds(milliseconds));
             };
             // A host without an agent, none at all, and no way.
             EXPECT_TRUE(fails_with(ask("10.77.0.2", 20000), Code::NotReachable,
                                    "no kernel agent runs at 10.77.0.2:"));
             EXPECT_TRUE(
                 fails_with(ask("10.77.0.99", 300), Code::Timeout, "no answer from 10.77.0.99:"));
             EXPECT_TRUE(fails_with(ask("192.0.2.1", 20000), Code::NotReachable, "192.0.2.1:"));
             // And by the fabric that does not leave the host.
             ConnectOffer inside = net_offer(vi, at_a, place("10.77.0.2", "s"));
             inside.fabric = fabric_shm;
             inside.channel_bytes = 4096;
             EXPECT_TRUE(fails_with(process->connect_request(inside, soon()), Code::NotReachable,
                                    "no device of this host"));
             return verdict();
         }).wait(),
        0);
}

TEST_F(TwoHosts, AnotherKeyIsToldAsThat) {
    char name[] = "/tmp/viaduct-key-XXXXXX";
    const base::UniqueFd file(mkstemp(name));
    ASSERT_TRUE(file.valid());
    std::ofstream(name) << "our secret\n";
    const NetAddress at_a = place("10.77.0.1", "c");
    const NetAddress at_b = place("10.77.0.2", "s");
    Signal waiting;
    Child server = b->run([&] {
        setenv("VIA_NET_KEY", "our secret", 1);
        TestProcess process;
        EXPECT_TRUE(process->status().value().net_key);
        waiting.give();
        auto incoming = process->connect_wait(at_b, soon(), nullptr, fabric_net);
        CHECK_OK(incoming);
        const std::uint32_t vi = process->create_vi().value();
        auto made =
            process->connect_accept(incoming.value().request, net_offer(vi, at_b, at_a), soon());
        CHECK_OK(made);
        return verdict();
    });
    ASSERT_TRUE(waiting.take());
    const auto without = [&] {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        EXPECT_FALSE(process->status().value().net_key);
        EXPECT_TRUE(fails_with(process->connect_request(net_offer(vi, at_a, at_b), soon()),
                               Code::NotReachable, "belongs to a cluster with another key"));
        process.detach();
        stop_agent();
        return verdict();
    };
    EXPECT_EQ(a->run(without).wait(), 0);
    // A key that others could have read is none.
    ASSERT_EQ(fchmod(file.get(), 0640), 0);
    EXPECT_EQ(
        a->run([&] {
             setenv("VIA_NET_KEY_FILE", name, 1);
             TestProcess process;
             const std::uint32_t vi = process->create_vi().value();
             EXPECT_TRUE(fails_with(process->connect_request(net_offer(vi, at_a, at_b), soon()),
                                    Code::NotReachable, "chmod 600"));
             EXPECT_NE(process->status().value().net_problem.find("chmod 600"), std::string::npos);
             process.detach();
             stop_agent();
             return verdict();
         }).wait(),
        0);
    ASSERT_EQ(fchmod(file.get(), 0600), 0);
    EXPECT_EQ(a->run([&] {
                   setenv("VIA_NET_KEY_FILE", name, 1);
                   TestProcess process;
                   const std::uint32_t vi = process->create_vi().value();
                   CHECK_OK(connect(process, net_offer(vi, at_a, at_b)));
                   return verdict();
               }).wait(),
              0);
    EXPECT_EQ(server.wait(), 0);
    unlink(name);
}

TEST_F(TwoHosts, ATakenPortIsToldAndTakenWhenItIsFree) {
    EXPECT_EQ(a->run([&] {
                   base::UniqueFd thief(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
                   sockaddr_in6 any{};
                   any.sin6_family = AF_INET6;
                   any.sin6_port = htons(usual_net_port(geteuid()));
                   EXPECT_EQ(bind(thief.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
                   TestProcess process;
                   const std::uint32_t vi = process->create_vi().value();
                   const ConnectOffer asked =
                       net_offer(vi, place("10.77.0.1", "c"), place("10.77.0.2", "s"));
                   EXPECT_TRUE(fails_with(process->connect_request(asked, soon()),
                                          Code::NotReachable, "Address already in use"));
                   EXPECT_FALSE(process->status().value().net_problem.empty());
                   thief.reset();
                   EXPECT_TRUE(fails_with(process->connect_request(asked, soon()),
                                          Code::NotReachable, "no kernel agent runs at"));
                   EXPECT_TRUE(process->status().value().net_problem.empty());
                   return verdict();
               }).wait(),
              0);
}

class PeerOrders : public TwoHosts, public testing::WithParamInterface<bool> {};

TEST_P(PeerOrders, PeersMeet) {
    const NetAddress at_a = place("10.77.0.1", "x");
    const NetAddress at_b = place("10.77.0.2", "y");
    Signal asked;
    // The first one asks even before the other host has an agent.
    const auto first = [&](const NetAddress& local, const NetAddress& remote, SessionKey& key) {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        auto request = process->peer_request(net_offer(vi, local, remote), soon());
        CHECK_OK(request);
        EXPECT_EQ(process->status().value().processes.at(0).waiting, 1U);
        asked.give();
        auto made = process->peer_wait(request.value());
        CHECK_OK(made);
        key = made.value().session_key;
        return verdict();
    };
    const auto second = [&](const NetAddress& local, const NetAddress& remote, SessionKey& key) {
        if (!asked.take()) return 1;
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        auto request = process->peer_request(net_offer(vi, local, remote), soon());
        CHECK_OK(request);
        auto made = process->peer_wait(request.value());
        CHECK_OK(made);
        key = made.value().session_key;
        return verdict();
    };
    const Namespace& one = GetParam() ? *a : *b;
    const Namespace& other = GetParam() ? *b : *a;
    const NetAddress& at_one = GetParam() ? at_a : at_b;
    const NetAddress& at_other = GetParam() ? at_b : at_a;
    Child early = one.run([&] { return first(at_one, at_other, shared->client_key); });
    Child late = other.run([&] { return second(at_other, at_one, shared->server_key); });
    EXPECT_EQ(early.wait(), 0);
    EXPECT_EQ(late.wait(), 0);
    EXPECT_EQ(shared->client_key, shared->server_key);
    EXPECT_NE(shared->client_key, SessionKey{});
}
INSTANTIATE_TEST_SUITE_P(TwoHosts, PeerOrders, testing::Bool());

TEST_F(TwoHosts, ARequesterThatIsKilledIsATimeout) {
    const NetAddress at_a = place("10.77.0.1", "c");
    const NetAddress at_b = place("10.77.0.2", "s");
    Signal met;
    Signal killed;
    Child server = b->run([&] {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        auto incoming = process->connect_wait(at_b, soon(), nullptr, fabric_net);
        CHECK_OK(incoming);
        met.give();
        EXPECT_TRUE(killed.take());
        // Whether the other agent's word has come yet or not.
        const auto late =
            process->connect_accept(incoming.value().request, net_offer(vi, at_b, at_a), soon());
        EXPECT_TRUE(fails_with(late, Code::Timeout, ""));
        return verdict();
    });
    Child client = a->run([&] {
        TestProcess process;
        const std::uint32_t vi = process->create_vi().value();
        (void)connect(process, net_offer(vi, at_a, at_b));
        return 1;
    });
    ASSERT_TRUE(met.take());
    client.kill(SIGKILL);
    EXPECT_EQ(client.wait(), -SIGKILL);
    // When its agent has seen that, it will not take a connection for it any more.
    EXPECT_EQ(a->run([] {
                   const auto watcher = observer();
                   const Deadline deadline = soon();
                   while (!watcher->status().value().processes.empty() && !deadline.expired()) {
                   }
                   return deadline.expired() ? 1 : 0;
               }).wait(),
              0);
    killed.give();
    EXPECT_EQ(server.wait(), 0);
}

TEST_F(TwoHosts, ManyAtOnce) {
    constexpr std::size_t count = 200;
    const NetAddress at_a = place("10.77.0.1", "x");
    const NetAddress at_b = place("10.77.0.2", "y");
    const auto side = [&](const NetAddress& local, const NetAddress& remote) {
        TestProcess process;
        std::vector<std::uint64_t> requests;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t vi = process->create_vi().value();
            ConnectOffer asked = net_offer(vi, local, remote);
            for (NetAddress* address : {&asked.local, &asked.remote}) {
                address->discriminator_bytes = 2;
                address->discriminator[1] = static_cast<std::uint8_t>(i);
            }
            auto request = process->peer_request(asked, soon());
            CHECK_OK(request);
            requests.push_back(request.value());
        }
        for (const std::uint64_t request : requests)
            CHECK_OK(process->peer_wait(request));
        EXPECT_EQ(process->status().value().processes.at(0).connections, count);
        return verdict();
    };
    Child one = a->run([&] { return side(at_a, at_b); });
    Child other = b->run([&] { return side(at_b, at_a); });
    EXPECT_EQ(one.wait(), 0);
    EXPECT_EQ(other.wait(), 0);
}

}  // namespace
}  // namespace via::ka::test
