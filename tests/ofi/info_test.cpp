// SPDX-License-Identifier: BSD-3-Clause
// fi_getinfo: what is offered, and to whom.
#include <arpa/inet.h>

#include <cstring>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

/// The infos that hints lead to; null: -FI_ENODATA.
Info ask(const fi_info* hints, std::uint32_t version = FI_VERSION(1, 17),
         const char* node = nullptr, const char* service = nullptr, std::uint64_t flags = 0) {
    fi_info* found = nullptr;
    const int result = fi_getinfo(version, node, service, flags, hints, &found);
    if (result == -FI_ENODATA) return nullptr;
    check(result, "fi_getinfo");
    return Info(found);
}

const sockaddr_in& address(const void* from) {
    return *static_cast<const sockaddr_in*>(from);
}

}  // namespace

TEST(Info, ComesConnectionlessFirst) {
    const Info info = ask(nullptr, 0);
    ASSERT_TRUE(info);
    EXPECT_STREQ(info->fabric_attr->prov_name, "via");
    EXPECT_EQ(info->ep_attr->type, FI_EP_RDM);
    ASSERT_NE(info->next, nullptr);
    EXPECT_EQ(info->next->ep_attr->type, FI_EP_MSG);
    ASSERT_NE(info->next->next, nullptr);
    EXPECT_EQ(info->next->next->ep_attr->type, FI_EP_DGRAM);
    EXPECT_EQ(info->next->next->next, nullptr) << "nothing is layered on it";
}

TEST(Info, AsksNothingOfProgramsAndPromisesWhatMpiNeeds) {
    const Info info = ask(nullptr);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->mode, 0U);
    EXPECT_EQ(info->domain_attr->mode, 0U);
    EXPECT_EQ(info->domain_attr->mr_mode, 0);
    EXPECT_EQ(info->ep_attr->max_msg_size, SIZE_MAX);
    EXPECT_EQ(info->domain_attr->cq_data_size, 8U);
    EXPECT_EQ(info->domain_attr->mr_key_size, 8U);
    EXPECT_GE(info->tx_attr->inject_size, 4096U);
    EXPECT_GE(info->tx_attr->iov_limit, 4U);
    EXPECT_TRUE(info->tx_attr->msg_order & FI_ORDER_SAS);
    EXPECT_EQ(info->domain_attr->max_ep_tx_ctx, 1U);
    const std::uint64_t needed = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV |
                                 FI_DIRECTED_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;
    EXPECT_EQ(info->caps & needed, needed);
}

TEST(Info, RegionModesFollowTheCaller) {
    EXPECT_EQ(ask(nullptr, FI_VERSION(1, 0))->domain_attr->mr_mode, FI_MR_SCALABLE);
    const Info hints(fi_allocinfo());
    hints->domain_attr->mr_mode = FI_MR_BASIC;
    EXPECT_EQ(ask(hints.get(), FI_VERSION(1, 4))->domain_attr->mr_mode, FI_MR_BASIC);
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
    EXPECT_EQ(ask(hints.get())->domain_attr->mr_mode, 0) << "who takes all gets the simplest";
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    EXPECT_EQ(ask(hints.get())->domain_attr->mr_mode,
              FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
    hints->domain_attr->mr_mode = 0;
    EXPECT_EQ(ask(hints.get())->domain_attr->mr_mode, 0);
}

TEST(Info, WhatMpichAsksForFits) {
    const Info hints(fi_allocinfo());
    hints->caps = ask(nullptr, 0)->caps | FI_DIRECTED_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->ep_attr->mem_tag_format = 0x007000007fffffff;
    hints->domain_attr->mode = FI_RESTRICTED_COMP;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->domain_attr->cq_data_size = 4;
    hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    hints->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
                                FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
    hints->rx_attr->op_flags = FI_COMPLETION;
    const Info info = ask(hints.get());
    ASSERT_TRUE(info);
    EXPECT_EQ(info->domain_attr->threading, FI_THREAD_DOMAIN);
    EXPECT_EQ(info->domain_attr->av_type, FI_AV_TABLE);
    EXPECT_EQ(info->tx_attr->op_flags, FI_COMPLETION | FI_DELIVERY_COMPLETE);
    EXPECT_EQ(info->mode, 0U);
}

TEST(Info, WhatOpenMpiAsksForFits) {
    const Info hints(fi_allocinfo());
    hints->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->tx_attr->op_flags = hints->rx_attr->op_flags = FI_COMPLETION;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->av_type = FI_AV_MAP;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->cq_data_size = 4;
    const Info info = ask(hints.get(), FI_VERSION(1, 5));
    ASSERT_TRUE(info);
    EXPECT_EQ(info->caps & (FI_MSG | FI_RMA), 0U) << "what was not asked for is not given";
    EXPECT_EQ(info->domain_attr->av_type, FI_AV_MAP);
}

TEST(Info, WhatItCanNotDoItDoesNotOffer) {
    const auto refused = [](auto change) {
        const Info hints(fi_allocinfo());
        hints->fabric_attr->prov_name = strdup("via");
        change(*hints);
        return ask(hints.get()) == nullptr;
    };
    EXPECT_TRUE(refused([](fi_info& hints) { hints.ep_attr->type = FI_EP_SOCK_STREAM; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.caps = FI_COLLECTIVE; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.addr_format = FI_SOCKADDR_IB; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.tx_attr->inject_size = 1 << 30; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.tx_attr->iov_limit = 10'000; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.tx_attr->comp_order = FI_ORDER_STRICT; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.ep_attr->tx_ctx_cnt = 17; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.domain_attr->cq_data_size = 16; }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.domain_attr->name = strdup("eth0"); }));
    EXPECT_TRUE(refused([](fi_info& hints) { hints.fabric_attr->name = strdup("other"); }));
    EXPECT_FALSE(refused([](fi_info&) {}));
}

TEST(Info, NamesAreResolvedToOneEnd) {
    const Info hints = hints_for({});
    const Info server = ask(hints.get(), FI_VERSION(1, 17), "127.0.0.1", "9228", FI_SOURCE);
    ASSERT_TRUE(server);
    EXPECT_EQ(address(server->src_addr).sin_port, htons(9228));
    EXPECT_EQ(address(server->src_addr).sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    EXPECT_EQ(server->dest_addr, nullptr);
    const Info client = ask(hints.get(), FI_VERSION(1, 17), "127.0.0.1", "9228");
    ASSERT_TRUE(client);
    EXPECT_EQ(address(client->dest_addr).sin_port, htons(9228));
    EXPECT_EQ(address(client->src_addr).sin_addr.s_addr, htonl(INADDR_LOOPBACK))
        << "the end of the route to there";
    EXPECT_EQ(address(client->src_addr).sin_port, 0);
}

TEST(Info, ANameThatDoesNotExistIsNoData) {
    const Info hints = hints_for({});
    EXPECT_FALSE(ask(hints.get(), FI_VERSION(1, 17), "g00n13s", "9228"));
    EXPECT_FALSE(ask(hints.get(), FI_VERSION(1, 17), "localhost", nullptr, FI_NUMERICHOST));
}

TEST(Info, AddressesOfHintsAreKept) {
    const Info hints = hints_for({});
    sockaddr_in source{};
    source.sin_family = AF_INET;
    source.sin_port = htons(4711);
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    hints->src_addr = std::malloc(sizeof source);
    std::memcpy(hints->src_addr, &source, sizeof source);
    hints->src_addrlen = sizeof source;
    const Info info = ask(hints.get(), FI_VERSION(1, 17), "127.0.0.1", "9228");
    ASSERT_TRUE(info);
    EXPECT_EQ(address(info->src_addr).sin_port, htons(4711));
    EXPECT_EQ(address(info->dest_addr).sin_port, htons(9228));
}

TEST(Info, AddressesCanBeText) {
    Wish wish;
    wish.address_format = FI_ADDR_STR;
    const Info info = get_info(wish, "fi_sockaddr_in://127.0.0.1:5555", nullptr, FI_SOURCE);
    EXPECT_STREQ(static_cast<const char*>(info->src_addr), "fi_sockaddr_in://127.0.0.1:5555");
}
