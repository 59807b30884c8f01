// SPDX-License-Identifier: BSD-3-Clause
// Echo: the client sends lines, the server sends them back.
//
//     echo                          both sides, in two processes
//     echo server [device]          one side each, on one host or on two
//     echo client [device [host]]
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <via/via.hpp>

using namespace std::chrono_literals;

// The value, or the end of the program with the reason.
template <class T>
T need(via::Expected<T> result) {
    if (!result) {
        std::fprintf(stderr, "echo: %s: %s\n", result.error().name(),
                     result.error().sentence.c_str());
        std::exit(EXIT_FAILURE);
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

int serve(const std::string& device, const std::string& service) {
    via::Nic nic = need(via::Nic::open(device));
    need(nic.on_error({}));  // no word in the log when the client leaves
    via::BufferPool pool = need(nic.create_pool(4, 1024));
    via::Vi vi = need(nic.create_vi());
    need(vi.post_receive(pool.take()));  // early, so that no message can come too early
    need(need(nic.listen(nic.address(service)).wait(10s)).accept(vi));
    for (;;) {
        via::Completion received = need(vi.wait_receive(10s));
        if (!received.ok()) return EXIT_SUCCESS;  // flushed: the client has left
        need(vi.post_receive(pool.take()));
        need(vi.send(std::move(received.buffer)));
        need(vi.wait_send(10s));
    }
}

int ask(const std::string& device, const std::string& host, const std::string& service) {
    via::Nic nic = need(via::Nic::open(device));
    via::BufferPool pool = need(nic.create_pool(4, 1024));
    via::Vi vi = need(nic.create_vi());
    need(vi.connect(host.empty() ? nic.address(service) : need(nic.resolve(host, service)), 10s));
    for (int round = 1; round <= 5; ++round) {
        const std::string line = "line " + std::to_string(round);
        need(vi.post_receive(pool.take()));
        via::Buffer buffer = pool.take();
        buffer.assign(line);
        need(vi.send(std::move(buffer)));
        need(vi.wait_send(10s));
        const via::Completion answer = need(vi.wait_receive(10s));
        if (!answer.ok() || answer.buffer.text() != line) {
            std::fprintf(stderr, "echo: the answer to \"%s\" is wrong\n", line.c_str());
            return EXIT_FAILURE;
        }
        std::printf("echo: %s\n", line.c_str());
    }
    return EXIT_SUCCESS;
}

int main(int count, char** words) {
    const std::string role = count > 1 ? words[1] : "";
    const std::string device = count > 2 ? words[2] : "shm0";
    if (role == "server") return serve(device, "echo");
    if (role == "client") return ask(device, count > 3 ? words[3] : "", "echo");
    if (!role.empty())
        return std::fputs("usage: echo [server|client [device [host]]]\n", stderr), 2;
    const std::string service = "echo-" + std::to_string(getpid());
    const pid_t child = fork();  // before the NIC is opened: a NIC belongs to one process
    if (child == 0) return ask(device, "", service);
    int status = serve(device, service);
    if (status == EXIT_SUCCESS) waitpid(child, &status, 0);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
