// SPDX-License-Identifier: BSD-3-Clause
// A program of libfabric in few words: opens what an endpoint needs and waits for completions, with
// a deadline. Everything goes through libfabric itself, which loads the provider of this build.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace ofi_test {

/// Ends the test with what was tried and what libfabric says.
void check(long result, const char* what);

struct FreeInfo {
    void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

template <class Object>
struct CloseObject {
    void operator()(Object* object) const noexcept { EXPECT_EQ(fi_close(&object->fid), 0); }
};
template <class Object>
using Open = std::unique_ptr<Object, CloseObject<Object>>;

struct Wish {
    fi_ep_type type = FI_EP_RDM;
    std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE;
    int mr_mode = 0;
    fi_av_type av_type = FI_AV_TABLE;
    fi_threading threading = FI_THREAD_SAFE;
    fi_cq_format format = FI_CQ_FORMAT_TAGGED;
    fi_wait_obj wait = FI_WAIT_UNSPEC;
    fi_wait_obj counter_wait = FI_WAIT_UNSPEC;
    std::size_t queue_size = 0;
    std::uint64_t transmit_flags = FI_COMPLETION;
    std::uint64_t receive_flags = FI_COMPLETION;
    std::uint64_t queue_flags = FI_TRANSMIT | FI_RECV;  ///< how the queue is bound
    std::uint32_t address_format = FI_SOCKADDR_IN;
};

[[nodiscard]] Info hints_for(const Wish& wish);
[[nodiscard]] Info get_info(const Wish& wish, const char* node = nullptr,
                            const char* service = nullptr, std::uint64_t flags = 0);

struct Event {
    bool is_error = false;
    fi_cq_tagged_entry entry{};
    fi_cq_err_entry error{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
};

/// A fabric, a domain and one connectionless endpoint with a queue and an address vector.
class Node {
  public:
    explicit Node(const Wish& wish = {});
    /// With nothing but a domain yet.
    struct NoEndpoint {};
    Node(const Wish& wish, NoEndpoint);

    void open_endpoint();
    [[nodiscard]] sockaddr_in name() const;
    fi_addr_t insert(const sockaddr_in& name);
    fi_addr_t insert(const Node& other) { return insert(other.name()); }

    /// One completion, if there is one (formats up to FI_CQ_FORMAT_TAGGED).
    [[nodiscard]] bool poll(Event& event);
    void progress() { fi_cq_read(cq.get(), nullptr, 0); }
    /// The next completion; `other` makes progress meanwhile.
    [[nodiscard]] Event next(Node* other = nullptr);
    /// The next completion, which must be a good one.
    [[nodiscard]] fi_cq_tagged_entry next_good(Node* other = nullptr);
    /// Nothing may come any more: all that is under way is moved, and the queue stays empty.
    void expect_quiet(Node* other = nullptr);

    [[nodiscard]] Open<fid_mr> expose(void* memory, std::size_t bytes, std::uint64_t key,
                                      std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE);

    Wish wish;
    Info info;
    Open<fid_fabric> fabric;
    Open<fid_domain> domain;
    Open<fid_cq> cq;
    Open<fid_av> av;
    Open<fid_ep> ep;
};

/// Two ends in one process that know each other: number 0 is the other, 1 the end itself.
struct Pair {
    explicit Pair(const Wish& wish = {}) : a(wish), b(wish) {
        a.insert(b);
        a.insert(a);
        b.insert(a);
        b.insert(b);
    }
    Node a;
    Node b;
};

/// Repeats an order until it is taken: -FI_EAGAIN asks for progress.
template <class Order>
void until_taken(Node& node, Node* other, Order order, const char* what) {
    const auto deadline = via::base::Deadline::after_milliseconds(20'000);
    for (;;) {
        const ssize_t result = order();
        if (result != -FI_EAGAIN) {
            check(result, what);
            return;
        }
        node.progress();
        if (other != nullptr) other->progress();
        if (deadline.expired()) throw std::runtime_error(std::string(what) + ": EAGAIN for ever");
    }
}

[[nodiscard]] std::vector<char> pattern(std::size_t bytes, unsigned seed = 1);

}  // namespace ofi_test
