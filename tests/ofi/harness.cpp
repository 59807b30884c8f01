// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/harness.hpp"

#include <sched.h>

namespace ofi_test {
namespace {

constexpr std::uint64_t patience_milliseconds = 20'000;

Event from_form(fi_cq_format format, const fi_cq_tagged_entry& read) {
    Event event;
    // The shorter forms are beginnings of the longer ones.
    event.entry.op_context = read.op_context;
    if (format >= FI_CQ_FORMAT_MSG) {
        event.entry.flags = read.flags;
        event.entry.len = read.len;
    }
    if (format >= FI_CQ_FORMAT_DATA) {
        event.entry.buf = read.buf;
        event.entry.data = read.data;
    }
    if (format >= FI_CQ_FORMAT_TAGGED) event.entry.tag = read.tag;
    return event;
}

}  // namespace

void check(long result, const char* what) {
    if (result < 0)
        throw std::runtime_error(std::string(what) + ": " + fi_strerror(static_cast<int>(-result)));
}

Info hints_for(const Wish& wish) {
    Info hints(fi_allocinfo());
    hints->caps = wish.caps;
    if (wish.type != FI_EP_RDM) hints->caps &= ~(FI_DIRECTED_RECV | FI_SOURCE);
    hints->addr_format = wish.address_format;
    hints->ep_attr->type = wish.type;
    hints->domain_attr->mr_mode = wish.mr_mode;
    hints->domain_attr->av_type = wish.av_type;
    hints->domain_attr->threading = wish.threading;
    hints->tx_attr->op_flags = wish.transmit_flags;
    hints->rx_attr->op_flags = wish.receive_flags;
    hints->fabric_attr->prov_name = strdup("via");
    return hints;
}

Info get_info(const Wish& wish, const char* node, const char* service, std::uint64_t flags) {
    const Info hints = hints_for(wish);
    fi_info* found = nullptr;
    check(fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints.get(), &found), "fi_getinfo");
    return Info(found);
}

Node::Node(const Wish& wanted, NoEndpoint) : wish(wanted) {
    info = get_info(wish, "127.0.0.1", nullptr, FI_SOURCE);
    fid_fabric* opened_fabric = nullptr;
    check(fi_fabric(info->fabric_attr, &opened_fabric, nullptr), "fi_fabric");
    fabric.reset(opened_fabric);
    fid_domain* opened_domain = nullptr;
    check(fi_domain(fabric.get(), info.get(), &opened_domain, nullptr), "fi_domain");
    domain.reset(opened_domain);
    fi_cq_attr queue{};
    queue.format = wish.format;
    queue.wait_obj = wish.wait;
    queue.size = wish.queue_size;
    fid_cq* opened_queue = nullptr;
    check(fi_cq_open(domain.get(), &queue, &opened_queue, nullptr), "fi_cq_open");
    cq.reset(opened_queue);
    fi_av_attr vector{};
    vector.type = wish.av_type;
    fid_av* opened_vector = nullptr;
    check(fi_av_open(domain.get(), &vector, &opened_vector, nullptr), "fi_av_open");
    av.reset(opened_vector);
}

Node::Node(const Wish& wanted) : Node(wanted, NoEndpoint{}) {
    open_endpoint();
    check(fi_ep_bind(ep.get(), &cq->fid, wish.queue_flags), "bind the queue");
    check(fi_ep_bind(ep.get(), &av->fid, 0), "bind the address vector");
    check(fi_enable(ep.get()), "fi_enable");
}

void Node::open_endpoint() {
    fid_ep* opened = nullptr;
    check(fi_endpoint(domain.get(), info.get(), &opened, nullptr), "fi_endpoint");
    ep.reset(opened);
}

sockaddr_in Node::name() const {
    sockaddr_in address{};
    std::size_t bytes = sizeof address;
    check(fi_getname(&ep->fid, &address, &bytes), "fi_getname");
    return address;
}

fi_addr_t Node::insert(const sockaddr_in& address) {
    fi_addr_t number = FI_ADDR_NOTAVAIL;
    if (fi_av_insert(av.get(), &address, 1, &number, 0, nullptr) != 1)
        throw std::runtime_error("fi_av_insert");
    return number;
}

bool Node::poll(Event& event) {
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    const ssize_t read = fi_cq_readfrom(cq.get(), &entry, 1, &source);
    if (read == -FI_EAGAIN) return false;
    if (read == -FI_EAVAIL) {
        event = {};
        event.is_error = true;
        check(fi_cq_readerr(cq.get(), &event.error, 0), "fi_cq_readerr");
        return true;
    }
    check(read, "fi_cq_read");
    event = from_form(wish.format, entry);
    event.source = source;
    return read == 1;
}

Event Node::next(Node* other) {
    const auto deadline = via::base::Deadline::after_milliseconds(patience_milliseconds);
    for (Event event;;) {
        if (poll(event)) return event;
        if (other != nullptr) other->progress();
        if (deadline.expired()) throw std::runtime_error("no completion has come");
    }
}

fi_cq_tagged_entry Node::next_good(Node* other) {
    const Event event = next(other);
    if (event.is_error)
        throw std::runtime_error(
            std::string("an operation has failed: ") +
            fi_cq_strerror(cq.get(), event.error.prov_errno, nullptr, nullptr, 0));
    return event.entry;
}

void Node::expect_quiet(Node* other) {
    Event event;
    for (int i = 0; i < 2000; ++i) {
        ASSERT_FALSE(poll(event)) << "something came that nobody had asked for";
        if (other != nullptr) other->progress();
    }
}

Open<fid_mr> Node::expose(void* memory, std::size_t bytes, std::uint64_t key,
                          std::uint64_t access) {
    fid_mr* region = nullptr;
    check(fi_mr_reg(domain.get(), memory, bytes, access, 0, key, 0, &region, nullptr), "fi_mr_reg");
    return Open<fid_mr>(region);
}

std::vector<char> pattern(std::size_t bytes, unsigned seed) {
    std::vector<char> text(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        text[i] = static_cast<char>((i * 131 + seed * 7919 + (i >> 8)) & 0xFF);
    return text;
}

}  // namespace ofi_test
