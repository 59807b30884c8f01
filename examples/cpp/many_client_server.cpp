// SPDX-License-Identifier: BSD-3-Clause
// One server, many clients, one completion queue. Each client sends numbers; the server answers
// each with the client's sum so far.
//
//     many_client_server                        a server and four clients
//     many_client_server server [clients]       one process each; start the server for as many
//     many_client_server client                 clients as will come
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <via/via.hpp>

using namespace std::chrono_literals;

constexpr std::uint64_t numbers = 100;

template <class T>
T need(via::Expected<T> result) {
    if (!result) {
        std::fprintf(stderr, "many_client_server: %s: %s\n", result.error().name(),
                     result.error().sentence.c_str());
        std::exit(EXIT_FAILURE);
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

void put(via::Buffer& buffer, std::uint64_t number) {
    buffer.assign(std::as_bytes(std::span(&number, 1)));
}

std::uint64_t get(const via::Buffer& buffer) {
    std::uint64_t number = 0;
    std::memcpy(&number, buffer.bytes().data(), std::min(sizeof number, buffer.size()));
    return number;
}

struct Client {
    via::Vi vi;
    std::uint64_t sum = 0;
};

int serve(const std::string& service, std::size_t count) {
    via::Nic nic = need(via::Nic::open("shm0"));
    need(nic.on_error({}));  // no word in the log when a client leaves
    via::CompletionQueue queue = need(nic.create_completion_queue(4 * count));
    via::BufferPool pool = need(nic.create_pool(4 * count, sizeof(std::uint64_t)));
    via::Listener listener = nic.listen(nic.address(service));
    std::vector<Client> clients;
    for (std::size_t i = 0; i < count; ++i) {
        // The cookie tells later whose completion it is.
        via::Vi vi =
            need(nic.create_vi({.send_queue = &queue, .receive_queue = &queue, .cookie = i}));
        need(vi.post_receive(pool.take()));
        need(need(listener.wait(10s)).accept(vi));
        clients.push_back({std::move(vi)});
    }

    std::size_t served = 0;
    for (std::size_t connected = count; connected > 0;) {
        via::Completion done = need(queue.wait(10s));
        if (!done.receive) continue;  // a send is through; its buffer returns to the pool here
        if (!done.ok()) {             // flushed: this client has left
            --connected;
            continue;
        }
        Client& client = clients[done.cookie];
        client.sum += get(done.buffer);
        need(client.vi.post_receive(pool.take()));
        put(done.buffer, client.sum);
        need(client.vi.send(std::move(done.buffer)));
        ++served;
    }
    std::printf("served %zu requests of %zu clients\n", served, count);
    return served == count * numbers ? EXIT_SUCCESS : EXIT_FAILURE;
}

int ask(const std::string& service) {
    via::Nic nic = need(via::Nic::open("shm0"));
    via::BufferPool pool = need(nic.create_pool(4, sizeof(std::uint64_t)));
    via::Vi vi = need(nic.create_vi());
    need(vi.connect(nic.address(service), 10s));
    std::uint64_t expected = 0;
    for (std::uint64_t number = 1; number <= numbers; ++number) {
        need(vi.post_receive(pool.take()));
        via::Buffer buffer = pool.take();
        put(buffer, number);
        need(vi.send(std::move(buffer)));
        need(vi.wait_send(10s));
        const via::Completion answer = need(vi.wait_receive(10s));
        expected += number;
        if (!answer.ok() || get(answer.buffer) != expected) {
            std::fprintf(stderr, "many_client_server: the server cannot add\n");
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}

int main(int count, char** words) {
    const std::string role = count > 1 ? words[1] : "";
    const std::size_t clients = count > 2 ? std::strtoul(words[2], nullptr, 10) : 4;
    if (clients < 1 || clients > 64) {
        std::fprintf(stderr, "many_client_server: from 1 to 64 clients, please\n");
        return 2;
    }
    if (role == "server") return serve("sum", clients);
    if (role == "client") return ask("sum");
    if (!role.empty()) {
        std::fprintf(stderr, "usage: many_client_server [server [clients] | client]\n");
        return 2;
    }
    const std::string service = "sum-" + std::to_string(getpid());
    for (std::size_t i = 0; i < clients; ++i) {
        if (fork() == 0) return ask(service);
    }
    int result = serve(service, clients);
    for (std::size_t i = 0; i < clients; ++i) {
        int status = 0;
        if (wait(&status) < 0 || status != 0) result = EXIT_FAILURE;
    }
    return result;
}
