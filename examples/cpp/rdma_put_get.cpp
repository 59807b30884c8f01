// SPDX-License-Identifier: BSD-3-Clause
// RDMA: the client writes a block into the server's memory (put), and reads it back (get). The
// server does nothing for either; it only learns from 32 bits of immediate data that the block is
// there.
//
//     rdma_put_get                      both sides, in two processes
//     rdma_put_get server [device]      one side each
//     rdma_put_get client [device]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <via/via.hpp>

using namespace std::chrono_literals;

constexpr std::size_t block_bytes = 65536;
constexpr std::uint32_t the_block_is_there = 42;

template <class T>
T need(via::Expected<T> result) {
    if (!result) {
        std::fprintf(stderr, "rdma_put_get: %s: %s\n", result.error().name(),
                     result.error().sentence.c_str());
        std::exit(EXIT_FAILURE);
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// A completion that went well.
via::Completion need_ok(via::Expected<via::Completion> result) {
    via::Completion completion = need(std::move(result));
    if (completion.ok()) return completion;
    std::fprintf(stderr, "rdma_put_get: %s\n", completion.error_text().c_str());
    std::exit(EXIT_FAILURE);
}

unsigned char pattern(std::size_t i) {
    return static_cast<unsigned char>(i * 7 + i / 256);
}

bool has_pattern(const via::Memory& memory) {
    const auto bytes = memory.as<unsigned char>();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] != pattern(i)) return false;
    }
    return true;
}

// What the NIC can do; RDMA read is optional.
via::Rights all_rights(const via::Nic& nic) {
    const bool read = (nic.attributes().RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY) != 0;
    return {.rdma_write = true, .rdma_read = read};
}

int serve(const std::string& device, const std::string& service) {
    via::Nic nic = need(via::Nic::open(device));
    need(nic.on_error({}));  // no word in the log when the client leaves
    via::Memory block = need(nic.allocate(block_bytes, all_rights(nic)));
    via::BufferPool pool = need(nic.create_pool(4, 64));
    via::Vi vi = need(nic.create_vi({.rights = all_rights(nic)}));
    need(vi.post_receive(pool.take()));  // for the immediate data
    need(vi.post_receive(pool.take()));  // for the end
    need(need(nic.listen(nic.address(service)).wait(10s)).accept(vi));

    const via::RemoteSegment offer = block.remote_segment();
    via::Buffer message = pool.take();
    message.assign(std::as_bytes(std::span(&offer, 1)));
    need(vi.send(std::move(message)));
    need_ok(vi.wait_send(10s));

    const via::Completion put = need_ok(vi.wait_receive(10s));
    if (put.operation != via::Operation::RemoteRdmaWrite || put.immediate != the_block_is_there ||
        !has_pattern(block)) {
        std::fprintf(stderr, "rdma_put_get: the server did not get the block it expected\n");
        return EXIT_FAILURE;
    }
    std::printf("put: the server has %zu bytes\n", block.size());
    need(vi.send(pool.take()));  // an empty message as a confirmation
    need_ok(vi.wait_send(10s));

    // The client leaves when it is through, which flushes the second receive.
    return need(vi.wait_receive(10s)).ok() ? EXIT_FAILURE : EXIT_SUCCESS;
}

int put_and_get(const std::string& device, const std::string& service) {
    via::Nic nic = need(via::Nic::open(device));
    via::Memory block = need(nic.allocate(block_bytes));
    via::BufferPool pool = need(nic.create_pool(4, 64));
    via::Vi vi = need(nic.create_vi());
    need(vi.post_receive(pool.take()));  // for the offer
    need(vi.post_receive(pool.take()));  // for the confirmation
    const via::ViAttributes server = need(vi.connect(nic.address(service), 10s));

    via::RemoteSegment offer;
    const via::Completion got = need_ok(vi.wait_receive(10s));
    std::memcpy(&offer, got.buffer.bytes().data(), std::min(sizeof offer, got.length));

    auto bytes = block.as<unsigned char>();
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = pattern(i);
    need(vi.rdma_write(pool.take(), offer, block.segment(), {.immediate = the_block_is_there}));
    need_ok(vi.wait_send(10s));
    need_ok(vi.wait_receive(10s));

    if (!all_rights(nic).rdma_read || !server.rights.rdma_read) {
        std::printf("get: this NIC has no RDMA read\n");
        return EXIT_SUCCESS;
    }
    std::ranges::fill(bytes, static_cast<unsigned char>(0));
    need(vi.rdma_read(pool.take(), offer, block.segment()));
    need_ok(vi.wait_send(10s));
    if (!has_pattern(block)) {
        std::fprintf(stderr, "rdma_put_get: the block came back changed\n");
        return EXIT_FAILURE;
    }
    std::printf("get: the client has %zu bytes\n", block.size());
    return EXIT_SUCCESS;
}

int main(int count, char** words) {
    const std::string role = count > 1 ? words[1] : "";
    const std::string device = count > 2 ? words[2] : "shm0";
    if (role == "server") return serve(device, "rdma");
    if (role == "client") return put_and_get(device, "rdma");
    if (!role.empty()) {
        std::fprintf(stderr, "usage: rdma_put_get [server [device] | client [device]]\n");
        return 2;
    }
    const std::string service = "rdma-" + std::to_string(getpid());
    const pid_t child = fork();
    if (child == 0) return put_and_get(device, service);
    int status = serve(device, service);
    if (status == EXIT_SUCCESS) waitpid(child, &status, 0);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
