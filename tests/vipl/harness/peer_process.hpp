// SPDX-License-Identifier: BSD-3-Clause
// A second process, and a connection to it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "vipl/harness/address.hpp"
#include "vipl/harness/pair.hpp"

namespace via::test {

/// Bytes between a test and the process it started. Throws when the other side is late or gone.
class Link {
  public:
    explicit Link(int fd) : fd_(fd) {}
    void write(const void* data, std::size_t bytes) const;
    void read(void* data, std::size_t bytes) const;
    template <typename Value>
    void put(const Value& value) const {
        static_assert(std::is_trivially_copyable_v<Value>);
        write(&value, sizeof value);
    }
    template <typename Value>
    [[nodiscard]] Value get() const {
        static_assert(std::is_trivially_copyable_v<Value>);
        Value value{};
        read(&value, sizeof value);
        return value;
    }
    /// Both sides meet here.
    void meet() const {
        put<std::uint8_t>(1);
        static_cast<void>(get<std::uint8_t>());
    }
    void put_address(Address& address) const { put(address); }
    void close();

  private:
    int fd_;
};

using PeerRole = void (*)(Link& link);

/// Registers a role: the body of the second process. Failed expectations in it become its exit
/// code.
struct PeerRegistration {
    PeerRegistration(const char* name, PeerRole role);
};
#define PEER(name)                                                           \
    void name(::via::test::Link& link);                                      \
    const ::via::test::PeerRegistration name##_registration{#name, &(name)}; \
    void name([[maybe_unused]] ::via::test::Link& link)

/// Runs a role in a fresh process (this program again), with changes to the environment.
class PeerProcess {
  public:
    using Environment = std::map<std::string, std::string>;
    explicit PeerProcess(const char* role, const Environment& environment = {}, int stderr_fd = -1);
    PeerProcess(const PeerProcess&) = delete;
    PeerProcess& operator=(const PeerProcess&) = delete;
    ~PeerProcess();

    Link link;
    [[nodiscard]] pid_t pid() const { return pid_; }
    /// The exit code, minus the signal, or -1000 if it did not end in time (it is killed then).
    [[nodiscard]] int wait();
    void kill();
    [[nodiscard]] bool has_ended();

  private:
    PeerProcess(const char* role, const Environment& environment, int stderr_fd,
                std::pair<int, int> sockets);
    pid_t pid_ = -1;
    bool reaped_ = false;
    int code_ = 0;
};

/// Role main, or -1 if the arguments do not ask for one.
[[nodiscard]] int run_peer(int argc, char** argv);

/// A connection to a peer process: this end is the server.
struct ServerEnd {
    explicit ServerEnd(const PairOptions& options = {});
    /// Tells the peer where to connect and accepts it.
    void accept(Link& link);
    Nic nic;
    End end;
};
/// The end in the peer process: the client.
struct ClientEnd {
    explicit ClientEnd(const PairOptions& options = {});
    void request(Link& link);
    Nic nic;
    End end;
};

}  // namespace via::test
