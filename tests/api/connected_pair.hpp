// SPDX-License-Identifier: BSD-3-Clause
// Two connected VIs in one process, each on its own NIC handle.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <via/via.hpp>

namespace via_api_test {

inline constexpr const char* device = "shm0";
inline constexpr std::chrono::milliseconds patience = std::chrono::seconds(20);

// No two tests, nor two runs of them at once, share a discriminator.
inline std::string fresh_name() {
    static std::atomic<unsigned> counter{0};
    return "t" + std::to_string(getpid()) + "." + std::to_string(counter++);
}

// The value, or a failed test with the sentence.
template <class T>
T need(via::Expected<T> result) {
    if (!result) {
        ADD_FAILURE() << result.error().name() << ": " << result.error().sentence;
        std::abort();
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline via::Completion need_ok(via::Expected<via::Completion> result) {
    via::Completion completion = need(std::move(result));
    EXPECT_TRUE(completion.ok()) << completion.error_text();
    return completion;
}

struct Side {
    explicit Side(std::size_t buffers = 16, std::size_t bytes_each = 1024)
        : nic(need(via::Nic::open(device))), pool(need(nic.create_pool(buffers, bytes_each))) {
        need(nic.on_error({}));  // peers leave all the time here
    }

    via::Nic nic;
    via::BufferPool pool;
};

// Connects two idle VIs; both must fit each other.
inline void connect(via::Nic& server_nic, via::Vi& server, via::Nic& client_nic, via::Vi& client) {
    const std::string name = fresh_name();
    auto accepted = std::async(std::launch::async, [&] {
        via::Request request = need(server_nic.listen(server_nic.address(name)).wait(patience));
        need(request.accept(server));
    });
    need(client.connect(client_nic.address(name), patience));
    accepted.get();
}

struct ConnectedPair {
    explicit ConnectedPair(const via::ViOptions& options = {})
        : server_vi(need(server.nic.create_vi(options))),
          client_vi(need(client.nic.create_vi(options))) {
        connect(server.nic, server_vi, client.nic, client_vi);
    }

    Side server;
    Side client;
    via::Vi server_vi;
    via::Vi client_vi;
};

}  // namespace via_api_test
