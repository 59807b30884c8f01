// SPDX-License-Identifier: BSD-3-Clause
// Two hosts out of network namespaces, joined by virtual cables. The namespaces have no names and
// are held by this process alone: they are gone with it, however it ends.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/fd.hpp"

namespace via::test {

class TestNetwork {
  public:
    enum Host { A, B };

    /// Cable i joins "v<i>" of both hosts: 10.77.i.1/24 and fd77:i::1/64 in A, ...2 in B. Throws
    /// std::runtime_error with the reason where that is not allowed or possible.
    explicit TestNetwork(int cables = 1, int mtu = 1500) : home_(open_own()) {
        try {
            for (auto& space : spaces_) {
                if (::unshare(CLONE_NEWNET) != 0)
                    throw std::runtime_error(std::string("no new network namespace: ") +
                                             std::strerror(errno));
                space = base::UniqueFd(open_own());
                must("ip link set lo up");
            }
            enter(spaces_[A]);
            const std::string other =
                "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(spaces_[B].get());
            for (int i = 0; i < cables; ++i) {
                const std::string name = "v" + std::to_string(i);
                must("ip link add " + name + " mtu " + std::to_string(mtu) +
                     " type veth peer name " + name + " mtu " + std::to_string(mtu) + " netns " +
                     other);
            }
            for (const Host host : {A, B})
                for (int i = 0; i < cables; ++i)
                    set_up(host, i);
        } catch (...) {
            enter(home_);
            throw;
        }
        enter(home_);
    }
    TestNetwork(const TestNetwork&) = delete;
    TestNetwork& operator=(const TestNetwork&) = delete;

    /// What `work` returns when this thread is inside that host.
    template <class Work>
    auto in(Host host, Work work) {
        struct Return {
            const base::UniqueFd& home;
            ~Return() { enter(home); }
        } back{home_};
        enter(spaces_[host]);
        return work();
    }
    /// Runs a command of the shell in that host; throws if it fails.
    void run(Host host, const std::string& command) {
        in(host, [&] { must(command); });
    }

  private:
    static int open_own() { return ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC); }
    static void enter(const base::UniqueFd& space) {
        if (::setns(space.get(), CLONE_NEWNET) != 0) std::abort();
    }
    static void must(const std::string& command) {
        if (std::system((command + " >/dev/null 2>&1").c_str()) != 0)
            throw std::runtime_error("failed: " + command);
    }
    void set_up(Host host, int cable) {
        enter(spaces_[host]);
        const std::string number = std::to_string(cable);
        const std::string end = host == A ? "1" : "2";
        const std::string name = "v" + number;
        must("ip link set " + name + " up");
        must("ip address add 10.77." + number + "." + end + "/24 dev " + name);
        must("ip address add fd77:" + number + "::" + end + "/64 dev " + name + " nodad");
    }

    base::UniqueFd home_;
    std::array<base::UniqueFd, 2> spaces_;
};

/// Null, and why, where this process may not make one.
inline std::unique_ptr<TestNetwork> try_network(std::string& reason, int cables = 1,
                                                int mtu = 1500) {
    try {
        return std::make_unique<TestNetwork>(cables, mtu);
    } catch (const std::runtime_error& problem) {
        reason = problem.what();
        return nullptr;
    }
}

}  // namespace via::test
