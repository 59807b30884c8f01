// SPDX-License-Identifier: BSD-3-Clause
// A ping-pong between two simulated hosts of 2003, by the clock of those hosts: what would MyVIA
// and Berkeley VIA have taken on a LANai 9?
//
//     simulated_hosts [bytes]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <via/via.hpp>

using namespace std::chrono_literals;

// The value, or the end of the program with the reason.
template <class T>
T need(via::Expected<T> result) {
    if (!result) {
        std::fprintf(stderr, "simulated_hosts: %s: %s\n", result.error().name(),
                     result.error().sentence.c_str());
        std::exit(EXIT_FAILURE);
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

constexpr int rounds = 100;

// One answers, on the host "a".
void answer(std::size_t bytes) {
    via::Nic nic = need(via::Nic::open("lanai9"));
    via::BufferPool pool = need(nic.create_pool(4, bytes));
    via::Vi vi = need(nic.create_vi());
    need(vi.post_receive(pool.take()));
    need(need(nic.listen(nic.address("pingpong")).wait(10s)).accept(vi));
    for (int i = 0; i < rounds; ++i) {
        via::Completion received = need(vi.wait_receive(10s));
        need(vi.post_receive(pool.take()));
        need(vi.send(std::move(received.buffer)));
        need(vi.wait_send(10s));
    }
}

// The other asks, and looks at its clock.
double ask(std::size_t bytes) {
    via::Nic nic = need(via::Nic::open("lanai9"));
    via::BufferPool pool = need(nic.create_pool(4, bytes));
    via::Vi vi = need(nic.create_vi());
    need(vi.connect(need(nic.resolve("a", "pingpong")), 10s));
    const std::string text(bytes, 'x');
    const std::chrono::nanoseconds begin = via::now();
    for (int i = 0; i < rounds; ++i) {
        need(vi.post_receive(pool.take()));
        via::Buffer buffer = pool.take();
        buffer.assign(text);
        need(vi.send(std::move(buffer)));
        need(vi.wait_receive(10s));
        need(vi.wait_send(10s));
    }
    return std::chrono::duration<double, std::micro>(via::now() - begin).count() / (2 * rounds);
}

int main(int count, char** words) {
    const std::size_t bytes = count > 1 ? std::strtoul(words[1], nullptr, 10) : 8;
    for (const char* firmware : {"myvia", "bvia"}) {
        double one_way = 0;
        need(via::simulate({.nic = "lanai9", .firmware = firmware},
                           {[&] { answer(bytes); }, [&] { one_way = ask(bytes); }}));
        std::printf("%s: %zu bytes one way in %.2f us\n", firmware, bytes, one_way);
    }
    return EXIT_SUCCESS;
}
