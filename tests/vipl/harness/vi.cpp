// SPDX-License-Identifier: BSD-3-Clause
#include "vipl/harness/vi.hpp"

#include <sched.h>

#include <thread>

namespace via::test {

VIP_VI_ATTRIBUTES attributes_for(const Nic& nic, const ViOptions& options) {
    VIP_VI_ATTRIBUTES attributes{};
    attributes.ReliabilityLevel = options.level;
    attributes.MaxTransferSize = options.max_transfer_bytes != 0 ? options.max_transfer_bytes
                                                                 : nic.attributes().MaxTransferSize;
    attributes.Ptag = options.tag;
    attributes.EnableRdmaWrite = options.rdma_write ? VIP_TRUE : VIP_FALSE;
    attributes.EnableRdmaRead =
        options.rdma_read && nic.reads_at(options.level) ? VIP_TRUE : VIP_FALSE;
    return attributes;
}

Vi::Vi(Nic& nic, const ViOptions& options) : nic_(nic) {
    VIP_VI_ATTRIBUTES attributes = attributes_for(nic, options);
    const VIP_RETURN code =
        VipCreateVi(nic, &attributes, options.send_cq, options.recv_cq, &handle_);
    if (code != VIP_SUCCESS) fail_with("VipCreateVi", code);
}

Vi::~Vi() {
    if (handle_ == nullptr || !nic_.is_open()) return;
    EXPECT_VIP(VIP_SUCCESS, VipDisconnect(handle_));
    drain_send();
    drain_recv();
    destroy();
}

void Vi::destroy() {
    EXPECT_VIP(VIP_SUCCESS, VipDestroyVi(handle_));
    handle_ = nullptr;
}

Vi::Query Vi::query() const {
    Query all;
    EXPECT_VIP(VIP_SUCCESS,
               VipQueryVi(handle_, &all.state, &all.attributes, &all.send_empty, &all.recv_empty));
    return all;
}

bool Vi::becomes(VIP_VI_STATE wanted) const {
    return eventually([&] { return state() == wanted; });
}

namespace {

/// Of VipSendDone or VipRecvDone.
using Done = VIP_RETURN (*)(VIP_VI_HANDLE, VIP_DESCRIPTOR**);

Completion await(VIP_VI_HANDLE vi, Done done) {
    Completion completion;
    static_cast<void>(eventually([&] {
        completion.code = done(vi, &completion.descriptor);
        return completion.code != VIP_NOT_DONE;
    }));
    return completion;
}

std::vector<Completion> drain(VIP_VI_HANDLE vi, Done done, const char* queue) {
    std::vector<Completion> all;
    for (;;) {
        const Completion completion = await(vi, done);
        if (completion.code == VIP_DESCRIPTOR_ERROR && completion.descriptor == nullptr) break;
        if (completion.code != VIP_SUCCESS && completion.code != VIP_DESCRIPTOR_ERROR) {
            ADD_FAILURE() << "the " << queue
                          << " queue does not drain: " << VipxReturnName(completion.code);
            break;
        }
        all.push_back(completion);
    }
    return all;
}

}  // namespace

Completion Vi::await_send() const {
    return await(handle_, VipSendDone);
}

Completion Vi::await_recv() const {
    return await(handle_, VipRecvDone);
}

std::vector<Completion> Vi::drain_send() const {
    return drain(handle_, VipSendDone, "send");
}

std::vector<Completion> Vi::drain_recv() const {
    return drain(handle_, VipRecvDone, "receive");
}

VIP_RETURN request_until_matched(VIP_VI_HANDLE vi, Address& local, Address& remote,
                                 VIP_ULONG timeout, VIP_VI_ATTRIBUTES* remote_attributes) {
    VIP_VI_ATTRIBUTES unused{};
    VIP_RETURN code = VIP_NO_MATCH;
    static_cast<void>(eventually([&] {
        code = VipConnectRequest(vi, local.get(), remote.get(), timeout,
                                 remote_attributes != nullptr ? remote_attributes : &unused);
        if (code == VIP_NO_MATCH) sched_yield();
        return code != VIP_NO_MATCH;
    }));
    return code;
}

ConnectOutcome connect(Vi& client, Vi& server) {
    ConnectOutcome outcome;
    Address server_address(server.nic(), unique_discriminator());
    Address client_address(client.nic(), unique_discriminator());
    std::thread acceptor([&] {
        VIP_CONN_HANDLE connection = nullptr;
        outcome.wait =
            VipConnectWait(server.nic(), server_address.get(), patience_ms, outcome.requester.get(),
                           &outcome.seen_by_server, &connection);
        if (outcome.wait != VIP_SUCCESS) return;
        outcome.accept = VipConnectAccept(connection, server);
        if (outcome.accept != VIP_SUCCESS) {
            EXPECT_VIP(VIP_SUCCESS, VipConnectReject(connection));
        }
    });
    outcome.request = request_until_matched(client, client_address, server_address, patience_ms,
                                            &outcome.seen_by_client);
    acceptor.join();
    return outcome;
}

}  // namespace via::test
