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

VIP_VI_STATE Vi::state() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return state;
}

VIP_VI_ATTRIBUTES Vi::attributes() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return attributes;
}

bool Vi::send_queue_empty() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return send_empty != VIP_FALSE;
}

bool Vi::recv_queue_empty() const {
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_BOOLEAN send_empty = VIP_FALSE;
    VIP_BOOLEAN recv_empty = VIP_FALSE;
    EXPECT_VIP(VIP_SUCCESS, VipQueryVi(handle_, &state, &attributes, &send_empty, &recv_empty));
    return recv_empty != VIP_FALSE;
}

bool Vi::becomes(VIP_VI_STATE wanted) const {
    return eventually([&] { return state() == wanted; });
}

Completion Vi::await_send() const {
    Completion completion;
    static_cast<void>(eventually([&] {
        completion.code = VipSendDone(handle_, &completion.descriptor);
        return completion.code != VIP_NOT_DONE;
    }));
    return completion;
}

Completion Vi::await_recv() const {
    Completion completion;
    static_cast<void>(eventually([&] {
        completion.code = VipRecvDone(handle_, &completion.descriptor);
        return completion.code != VIP_NOT_DONE;
    }));
    return completion;
}

std::vector<Completion> Vi::drain_send() const {
    std::vector<Completion> all;
    for (;;) {
        const Completion completion = await_send();
        if (completion.code == VIP_DESCRIPTOR_ERROR && completion.descriptor == nullptr) break;
        if (completion.code != VIP_SUCCESS && completion.code != VIP_DESCRIPTOR_ERROR) {
            ADD_FAILURE() << "the send queue does not drain: " << VipxReturnName(completion.code);
            break;
        }
        all.push_back(completion);
    }
    return all;
}

std::vector<Completion> Vi::drain_recv() const {
    std::vector<Completion> all;
    for (;;) {
        const Completion completion = await_recv();
        if (completion.code == VIP_DESCRIPTOR_ERROR && completion.descriptor == nullptr) break;
        if (completion.code != VIP_SUCCESS && completion.code != VIP_DESCRIPTOR_ERROR) {
            ADD_FAILURE() << "the receive queue does not drain: "
                          << VipxReturnName(completion.code);
            break;
        }
        all.push_back(completion);
    }
    return all;
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
