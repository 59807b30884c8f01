// SPDX-License-Identifier: BSD-3-Clause
// Connected endpoints (FI_EP_MSG): listen, connect, accept, reject, shutdown, with data.
#include <arpa/inet.h>

#include <cstring>
#include <functional>

#include "ofi/harness.hpp"

using namespace ofi_test;

namespace {

struct ConnectionEvent {
    std::uint32_t event = 99;
    fid* about = nullptr;
    Info info;
    std::string data;
    int error = 0;
};

/// One side: its own fabric, domain and event queue.
class Side {
  public:
    Side() {
        Wish wish;
        wish.type = FI_EP_MSG;
        node = std::make_unique<Node>(wish, Node::NoEndpoint{});
        fi_eq_attr attributes{};
        attributes.wait_obj = FI_WAIT_UNSPEC;
        fid_eq* opened = nullptr;
        check(fi_eq_open(node->fabric.get(), &attributes, &opened, nullptr), "fi_eq_open");
        eq.reset(opened);
    }
    ~Side() {
        node->ep.reset();
        pep.reset();
    }

    bool poll(ConnectionEvent& event) {
        alignas(fi_eq_cm_entry) char room[512];
        const ssize_t read = fi_eq_read(eq.get(), &event.event, room, sizeof room, 0);
        if (read == -FI_EAGAIN) return false;
        if (read == -FI_EAVAIL) {
            fi_eq_err_entry error{};
            check(fi_eq_readerr(eq.get(), &error, 0), "fi_eq_readerr");
            event.error = error.err;
            event.about = error.fid;
            event.data.assign(static_cast<const char*>(error.err_data), error.err_data_size);
            return true;
        }
        check(read, "fi_eq_read");
        const auto& entry = *reinterpret_cast<fi_eq_cm_entry*>(room);
        event.about = entry.fid;
        if (event.event == FI_CONNREQ) event.info.reset(entry.info);
        event.data.assign(room + sizeof(fi_eq_cm_entry),
                          static_cast<std::size_t>(read) - sizeof(fi_eq_cm_entry));
        return true;
    }
    ConnectionEvent next(Side& other) {
        const auto deadline = via::base::Deadline::after_milliseconds(20'000);
        for (ConnectionEvent event;;) {
            if (poll(event)) return event;
            other.node->progress();
            node->progress();
            if (deadline.expired()) throw std::runtime_error("no event has come");
        }
    }
    void listen() {
        fid_pep* opened = nullptr;
        check(fi_passive_ep(node->fabric.get(), node->info.get(), &opened, nullptr),
              "fi_passive_ep");
        pep.reset(opened);
        check(fi_pep_bind(opened, &eq->fid, 0), "bind");
        check(fi_listen(opened), "fi_listen");
    }
    [[nodiscard]] sockaddr_in listener_name() const {
        sockaddr_in address{};
        std::size_t bytes = sizeof address;
        check(fi_getname(&pep->fid, &address, &bytes), "fi_getname");
        return address;
    }
    void open_endpoint(fi_info* info) {
        fid_ep* opened = nullptr;
        check(fi_endpoint(node->domain.get(), info, &opened, nullptr), "fi_endpoint");
        node->ep.reset(opened);
        check(fi_ep_bind(opened, &eq->fid, 0), "bind");
        check(fi_ep_bind(opened, &node->cq->fid, FI_TRANSMIT | FI_RECV), "bind");
        check(fi_enable(opened), "fi_enable");
    }

    std::unique_ptr<Node> node;
    Open<fid_eq> eq;
    Open<fid_pep> pep;
};

class ConnectedEndpoints : public testing::Test {
  protected:
    void ask(const std::string& data) {
        server.listen();
        client.open_endpoint(client.node->info.get());
        const sockaddr_in listener = server.listener_name();
        check(fi_connect(client.node->ep.get(), &listener, data.data(), data.size()), "fi_connect");
        request = server.next(client);
        ASSERT_EQ(request.event, static_cast<std::uint32_t>(FI_CONNREQ));
        ASSERT_EQ(request.about, &server.pep->fid);
        EXPECT_EQ(request.data, data);
    }
    void connect() {
        ask("");
        server.open_endpoint(request.info.get());
        check(fi_accept(server.node->ep.get(), nullptr, 0), "fi_accept");
        EXPECT_EQ(server.next(client).event, static_cast<std::uint32_t>(FI_CONNECTED));
        EXPECT_EQ(client.next(server).event, static_cast<std::uint32_t>(FI_CONNECTED));
    }

    Side server;
    Side client;
    ConnectionEvent request;
};

}  // namespace

TEST_F(ConnectedEndpoints, DataTravelWithRequestAndAnswer) {
    ask("from the client");
    server.open_endpoint(request.info.get());
    check(fi_accept(server.node->ep.get(), "from the server", 15), "fi_accept");
    const ConnectionEvent accepted = server.next(client);
    EXPECT_EQ(accepted.event, static_cast<std::uint32_t>(FI_CONNECTED));
    EXPECT_EQ(accepted.about, &server.node->ep->fid);
    const ConnectionEvent connected = client.next(server);
    EXPECT_EQ(connected.event, static_cast<std::uint32_t>(FI_CONNECTED));
    EXPECT_EQ(connected.about, &client.node->ep->fid);
    EXPECT_EQ(connected.data, "from the server");
    sockaddr_in peer{};
    std::size_t bytes = sizeof peer;
    ASSERT_EQ(fi_getpeer(client.node->ep.get(), &peer, &bytes), 0);
    EXPECT_EQ(peer.sin_port, server.node->name().sin_port);
}

TEST_F(ConnectedEndpoints, MessagesGoBothWays) {
    connect();
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{9000}, std::size_t{500'000}}) {
        for (const bool forth : {true, false}) {
            Node& from = forth ? *client.node : *server.node;
            Node& to = forth ? *server.node : *client.node;
            const std::vector<char> text = pattern(bytes, forth ? 1 : 2);
            std::vector<char> got(bytes);
            check(fi_recv(to.ep.get(), got.data(), bytes, nullptr, 0, nullptr), "fi_recv");
            until_taken(
                from, &to,
                [&] { return fi_send(from.ep.get(), text.data(), bytes, nullptr, 0, nullptr); },
                "fi_send");
            EXPECT_EQ(to.next_good(&from).len, bytes);
            (void)from.next_good(&to);
            EXPECT_EQ(got, text);
        }
    }
}

TEST_F(ConnectedEndpoints, OneSidedToo) {
    connect();
    std::vector<char> memory(100, 0);
    const auto region = server.node->expose(memory.data(), memory.size(), 1);
    until_taken(
        *client.node, server.node.get(),
        [&] {
            return fi_writedata(client.node->ep.get(), "written", 8, nullptr, 3, 0, 0, 1, nullptr);
        },
        "fi_writedata");
    EXPECT_EQ(server.node->next_good(client.node.get()).data, 3U);
    EXPECT_STREQ(memory.data(), "written");
}

TEST_F(ConnectedEndpoints, ARejectionIsAnErrorWithData) {
    ask("please");
    check(fi_reject(server.pep.get(), request.info->handle, "no", 2), "fi_reject");
    const ConnectionEvent refused = client.next(server);
    EXPECT_EQ(refused.error, FI_ECONNREFUSED);
    EXPECT_EQ(refused.about, &client.node->ep->fid);
    EXPECT_EQ(refused.data, "no");
    EXPECT_LT(fi_reject(server.pep.get(), request.info->handle, "no", 2), 0) << "it is answered";
}

TEST_F(ConnectedEndpoints, WhereNobodyListensTheConnectionIsRefused) {
    server.listen();
    const sockaddr_in name = server.listener_name();
    server.pep.reset();
    client.open_endpoint(client.node->info.get());
    const int asked = fi_connect(client.node->ep.get(), &name, nullptr, 0);
    if (asked != 0) return;  // it may be known at once
    EXPECT_EQ(client.next(server).error, FI_ECONNREFUSED);
}

TEST_F(ConnectedEndpoints, AShutdownIsToldToBoth) {
    connect();
    check(fi_shutdown(client.node->ep.get(), 0), "fi_shutdown");
    EXPECT_EQ(server.next(client).event, static_cast<std::uint32_t>(FI_SHUTDOWN));
    EXPECT_EQ(client.next(server).event, static_cast<std::uint32_t>(FI_SHUTDOWN));
}

TEST_F(ConnectedEndpoints, AClosedEndpointIsAShutdownToo) {
    connect();
    client.node->ep.reset();
    const ConnectionEvent event = server.next(client);
    EXPECT_EQ(event.event, static_cast<std::uint32_t>(FI_SHUTDOWN));
    EXPECT_EQ(event.about, &server.node->ep->fid);
}

TEST_F(ConnectedEndpoints, OperationsBeforeTheConnectionAreRefused) {
    client.open_endpoint(client.node->info.get());
    char byte = 0;
    EXPECT_LT(fi_send(client.node->ep.get(), &byte, 1, nullptr, 0, nullptr), 0);
    EXPECT_EQ(fi_shutdown(client.node->ep.get(), 0), -FI_ENOTCONN);
    EXPECT_EQ(fi_accept(client.node->ep.get(), nullptr, 0), -FI_EOPBADSTATE);
    // A receive may wait already.
    EXPECT_EQ(fi_recv(client.node->ep.get(), &byte, 1, nullptr, 0, nullptr), 0);
}

TEST_F(ConnectedEndpoints, ManyClientsOneListener) {
    server.listen();
    const sockaddr_in listener = server.listener_name();
    std::vector<std::unique_ptr<Side>> clients;
    std::vector<Open<fid_ep>> accepted;
    for (int i = 0; i < 5; ++i) {
        clients.push_back(std::make_unique<Side>());
        Side& one = *clients.back();
        one.open_endpoint(one.node->info.get());
        check(fi_connect(one.node->ep.get(), &listener, nullptr, 0), "fi_connect");
        ConnectionEvent asked = server.next(one);
        ASSERT_EQ(asked.event, static_cast<std::uint32_t>(FI_CONNREQ));
        server.open_endpoint(asked.info.get());
        check(fi_accept(server.node->ep.get(), nullptr, 0), "fi_accept");
        EXPECT_EQ(one.next(server).event, static_cast<std::uint32_t>(FI_CONNECTED));
        EXPECT_EQ(server.next(one).event, static_cast<std::uint32_t>(FI_CONNECTED));
        accepted.push_back(std::move(server.node->ep));
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
        char got = 0;
        check(fi_recv(clients[i]->node->ep.get(), &got, 1, nullptr, 0, nullptr), "fi_recv");
        const char sent = static_cast<char>('a' + i);
        until_taken(
            *server.node, clients[i]->node.get(),
            [&] { return fi_inject(accepted[i].get(), &sent, 1, 0); }, "fi_inject");
        (void)clients[i]->node->next_good(server.node.get());
        EXPECT_EQ(got, sent);
    }
}
