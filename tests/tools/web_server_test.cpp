// SPDX-License-Identifier: BSD-3-Clause
// The server of `via web`, asked over a real socket, also by those who do not know how.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "web/server.hpp"

namespace via::tool::web {
namespace {

constexpr const char* door_token = "0123456789abcdef0123456789abcdef";

struct Reply {
    int status = 0;  ///< 0: nothing that looks like an answer
    std::string head;
    std::string body;

    [[nodiscard]] nlohmann::json json() const {
        return nlohmann::json::parse(body, nullptr, false);
    }
};

class WebServer : public ::testing::Test {
  protected:
    static void SetUpTestSuite() {
        // Nobody else's agent: here none runs.
        const std::string socket = "@viaduct/test/web-server/" + std::to_string(getpid());
        setenv("VIA_AGENT_SOCKET", socket.c_str(), 1);
    }

    void SetUp() override {
        Server::Options options;
        options.door = {door_token, "127.0.0.1", false, "pillar"};
        options.version = "1.2.3";
        auto started = Server::start(std::move(options));
        ASSERT_TRUE(started) << started.error().sentence;
        server_ = std::move(started).value();
    }

    enum class Then : std::uint8_t { Listen, HangUp };

    /// Says it, and listens until the other side has nothing more to say; or says that nothing more
    /// will come, so that a request that has no end is not waited for.
    [[nodiscard]] Reply tell(const std::string& bytes, Then then = Then::Listen) const {
        const base::UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const timeval patience{20, 0};
        setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(server_->port());
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)) != 0)
            return {};
        // It may hang up before it has heard all.
        (void)send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (then == Then::HangUp) shutdown(connection.get(), SHUT_WR);
        std::string all;
        char part[4096];
        for (;;) {
            const ssize_t count = recv(connection.get(), part, sizeof(part), 0);
            if (count <= 0) break;
            all.append(part, static_cast<std::size_t>(count));
        }
        Reply reply;
        const std::size_t end = all.find("\r\n\r\n");
        if (!all.starts_with("HTTP/1.1 ") || end == std::string::npos) return reply;
        reply.status = atoi(all.c_str() + 9);
        reply.head = all.substr(0, end + 2);
        reply.body = all.substr(end + 4);
        return reply;
    }

    [[nodiscard]] Reply ask(const std::string& path, const std::string& more = {},
                            const std::string& host = "localhost") const {
        return tell("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + more +
                    "Connection: close\r\n\r\n");
    }

    [[nodiscard]] Reply inside(const std::string& path) const {
        return ask(std::string("/") + door_token + "/" + path);
    }

    std::unique_ptr<Server> server_;
};

TEST_F(WebServer, ServesThePageAndItsFiles) {
    EXPECT_EQ(server_->address(),
              "http://127.0.0.1:" + std::to_string(server_->port()) + "/" + door_token + "/");
    const Reply page = inside("");
    EXPECT_EQ(page.status, 200);
    EXPECT_NE(page.body.find("<title>Viaduct</title>"), std::string::npos);
    EXPECT_TRUE(page.body.ends_with("</html>\n"));
    EXPECT_NE(page.head.find("Content-Security-Policy: default-src 'none'"), std::string::npos);
    EXPECT_NE(page.head.find("Referrer-Policy: no-referrer\r\n"), std::string::npos);
    EXPECT_NE(page.head.find("X-Content-Type-Options: nosniff\r\n"), std::string::npos);
    EXPECT_EQ(page.head.find("Access-Control"), std::string::npos);
    EXPECT_EQ(page.body.find("http://"), std::string::npos) << "nothing comes from elsewhere";
    EXPECT_EQ(page.body.find("https://"), std::string::npos);
    EXPECT_NE(inside("page.js").head.find("Content-Type: text/javascript"), std::string::npos);
    EXPECT_NE(inside("style.css").head.find("Content-Type: text/css"), std::string::npos);
    EXPECT_EQ(inside("icon.svg").status, 200);
    const Reply folder = ask(std::string("/") + door_token);
    EXPECT_EQ(folder.status, 302);
    EXPECT_NE(folder.head.find(std::string("Location: /") + door_token + "/\r\n"),
              std::string::npos);
    EXPECT_EQ(tell(std::string("HEAD /") + door_token +
                   "/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                  .body,
              "");
}

TEST_F(WebServer, AnswersInJson) {
    EXPECT_EQ(inside("api/version").json()["version"], "1.2.3");
    const nlohmann::json live = inside("api/live").json();
    ASSERT_TRUE(live.is_object());
    EXPECT_EQ(live["hosts"][0]["agent"]["running"], false);
    EXPECT_EQ(inside("api/sim/catalogue").json()["nics"].size(), 3u);
    const Reply run = inside("api/sim/run?nic=lanai9&firmware=myvia&bytes=512&messages=2");
    EXPECT_EQ(run.status, 200);
    EXPECT_GT(run.json()["stages"].size(), 4u);
    const Reply odd = inside("api/sim/run?nic=lanai4&machine=p2-300&firmware=User%3AST%2CDT");
    EXPECT_EQ(odd.status, 200) << odd.body;
    const Reply metrics = inside("metrics");
    EXPECT_EQ(metrics.status, 200);
    EXPECT_NE(metrics.head.find("Content-Type: text/plain; version=0.0.4"), std::string::npos);
    EXPECT_NE(metrics.body.find("via_agent_up 0\n"), std::string::npos);
    const Reply bearer =
        ask("/metrics", std::string("Authorization: Bearer ") + door_token + "\r\n");
    EXPECT_EQ(bearer.body, metrics.body);
}

TEST_F(WebServer, RefusesWithASentence) {
    const auto refused = [](const Reply& reply, int status) {
        EXPECT_EQ(reply.status, status) << reply.body;
        const nlohmann::json answer = reply.json();
        ASSERT_TRUE(answer.is_object()) << reply.body;
        EXPECT_FALSE(answer["error"].get<std::string>().empty());
        EXPECT_EQ(reply.head.find("Access-Control"), std::string::npos);
        EXPECT_NE(reply.head.find("Content-Security-Policy:"), std::string::npos);
    };
    const std::string good = std::string("/") + door_token + "/api/live";
    refused(ask("/"), 401);
    refused(ask("/metrics"), 401);
    refused(ask("/api/live?token=" + std::string(door_token)), 401);
    refused(ask(good, {}, "evil.example"), 403);
    refused(ask(good, {}, "evil.example:" + std::to_string(server_->port())), 403);
    refused(ask(good, "Host: localhost\r\n"), 403);
    refused(tell("GET " + good + " HTTP/1.0\r\nConnection: close\r\n\r\n"), 403);
    refused(inside("nothing"), 404);
    refused(inside("../../etc/passwd"), 404);
    refused(inside("%2e%2e/%2e%2e/etc/passwd"), 404);
    refused(inside("api/sim/run?bytes=999999999999999999999"), 400);
    refused(inside("api/sim/run?machine=%2Fetc%2Fpasswd"), 400);
    refused(inside("api/sim/curves?nic=x"), 400);
    for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
        refused(tell(std::string(method) + " " + good +
                     " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: "
                     "close\r\n\r\n"),
                405);
}

TEST_F(WebServer, SaysThatAPortIsTaken) {
    Server::Options options;
    options.door = {door_token, "127.0.0.1", false, ""};
    options.port = server_->port();
    const auto second = Server::start(std::move(options));
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().sentence.find("taken"), std::string::npos) << second.error().sentence;
    Server::Options elsewhere;
    elsewhere.door = {door_token, "192.0.2.1", true, ""};
    const auto third = Server::start(std::move(elsewhere));
    ASSERT_FALSE(third);
    EXPECT_NE(third.error().sentence.find("192.0.2.1"), std::string::npos);
}

TEST_F(WebServer, OutlivesAnythingThatIsSaid) {
    const std::string good =
        std::string("GET /") + door_token +
        "/api/sim/run?bytes=64&messages=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (const std::string& request :
         {std::string(), std::string("\r\n\r\n"), std::string("GET\r\n\r\n"),
          std::string("GET / HTTP/9.9\r\n\r\n"), std::string(100'000, 'A'),
          "GET /" + std::string(50'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: " + std::string(20'000, 'h') + "\r\n\r\n",
          "GET / HTTP/1.1\r\n" + std::string("X: y\r\n") + "Host localhost\r\n\r\n",
          std::string("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"),
          std::string("GET / HTTP/1.1\r\nHost: localhost\r\nRange: bytes=9-1,-\r\n\r\n"),
          std::string("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
                      "chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n"),
          std::string("GET /%00%zz%u1234 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
          "GET /" + std::string(door_token) +
              "/api/live HTTP/1.1\r\nHost: localhost\r\nRange: "
              "bytes=0-4,2-9\r\nConnection: close\r\n\r\n"})
        (void)tell(request, Then::HangUp);
    for (std::uint32_t seed = 0; seed < 150; ++seed) {
        std::mt19937 random(seed);
        std::string bytes = good;
        for (std::size_t i = 1 + random() % 6; i > 0; --i) {
            const std::size_t place = random() % bytes.size();
            switch (random() % 3) {
                case 0:
                    bytes[place] = static_cast<char>(random());
                    break;
                case 1:
                    bytes.erase(place, 1 + random() % 8);
                    break;
                default:
                    bytes.insert(place, 1 + random() % 40, static_cast<char>(random()));
                    break;
            }
        }
        (void)tell(bytes, Then::HangUp);
    }
    EXPECT_EQ(tell(good).status, 200);
}

}  // namespace
}  // namespace via::tool::web
