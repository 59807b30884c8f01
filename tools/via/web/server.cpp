// SPDX-License-Identifier: BSD-3-Clause
#include "web/server.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <httplib.h>
#include <string.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "web/metrics.hpp"
#include "web/page_files.hpp"
#include "web/simulation.hpp"
#include "web/watch.hpp"

namespace via::tool::web {
namespace {

using base::Code;
using base::Result;
using nlohmann::json;

/// A browser has up to six connections, and each that is open has a thread, which sleeps.
constexpr std::size_t threads = 12;
/// An open connection is waited for at the end, so not long; the page comes every 450 ms.
constexpr int keep_alive_seconds = 2;
constexpr std::size_t keep_alive_requests = 100'000;
constexpr int transfer_seconds = 5;
constexpr std::size_t most_request_bytes = 4096;

constexpr const char* json_type = "application/json; charset=utf-8";
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string content_type(std::string_view name) {
    if (name.ends_with(".html")) return "text/html; charset=utf-8";
    if (name.ends_with(".css")) return "text/css; charset=utf-8";
    if (name.ends_with(".svg")) return "image/svg+xml";
    return "text/javascript; charset=utf-8";
}

/// By a provider, since the library would compress a text each time, at a cost that a connection
/// inside the host never earns back.
void answer(httplib::Response& response, int status, std::string text, const std::string& type) {
    // A good one is left to the library, which knows of parts that were asked for.
    if (status != 200) response.status = status;
    const std::size_t bytes = text.size();
    response.set_content_provider(
        bytes, type,
        [kept = std::move(text)](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
            return sink.write(kept.data() + offset, length);
        });
}

void answer(httplib::Response& response, const json& value) {
    answer(response, 200, value.dump(-1, ' ', false, json::error_handler_t::replace), json_type);
}

void refuse(httplib::Response& response, int status, const std::string& sentence) {
    answer(response, status,
           json{{"error", sentence}}.dump(-1, ' ', false, json::error_handler_t::replace),
           json_type);
}

void answer(httplib::Response& response, const Result<json>& result) {
    if (result) return answer(response, result.value());
    switch (result.error().code) {
        case Code::InvalidArgument:
            return refuse(response, 400, result.error().sentence);
        case Code::Timeout:
            response.set_header("Retry-After", "2");
            return refuse(response, 503, result.error().sentence);
        default:
            return refuse(response, 500, result.error().sentence);
    }
}

class RunningServer final : public Server {
  public:
    explicit RunningServer(Options options)
        : door_(std::move(options.door)),
          version_(std::move(options.version)),
          watch_(std::move(options.lab)) {
        server_.new_task_queue = [] { return new httplib::ThreadPool(threads); };
        // The library would share the port with whoever else listens at it.
        server_.set_socket_options([](int socket) {
            const int yes = 1;
            setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        });
        server_.set_tcp_nodelay(true);
        server_.set_keep_alive_timeout(keep_alive_seconds);
        server_.set_keep_alive_max_count(keep_alive_requests);
        server_.set_read_timeout(transfer_seconds);
        server_.set_write_timeout(transfer_seconds);
        server_.set_payload_max_length(most_request_bytes);
        server_.set_default_headers({{"Content-Security-Policy", policy},
                                     {"X-Content-Type-Options", "nosniff"},
                                     {"Referrer-Policy", "no-referrer"},
                                     {"Cross-Origin-Resource-Policy", "same-origin"},
                                     {"Cross-Origin-Opener-Policy", "same-origin"},
                                     {"Cache-Control", "no-store"}});
        server_.set_pre_routing_handler(
            [this](const httplib::Request& request, httplib::Response& response) {
                handle(request, response);
                return httplib::Server::HandlerResponse::Handled;
            });
        server_.set_exception_handler(
            [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
                refuse(response, 500, "The server has failed at this request.");
            });
        // What the library itself does not understand.
        server_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
            if (response.body.empty() && !response.content_provider_)
                refuse(response, response.status, "The request was not understood.");
        });
    }

    ~RunningServer() override {
        server_.stop();
        if (thread_.joinable()) thread_.join();
    }

    [[nodiscard]] Result<void> listen(std::uint16_t wanted) {
        errno = 0;
        const int got = wanted == 0 ? server_.bind_to_any_port(door_.listen)
                        : server_.bind_to_port(door_.listen, wanted) ? wanted
                                                                     : -1;
        if (got <= 0) {
            const int why = errno;
            if (why == EADDRINUSE)
                return {Code::InvalidState,
                        fmt::format("port {} at {} is taken by another program; --port chooses "
                                    "another, 0 any that is free",
                                    wanted, door_.listen)};
            return {Code::System,
                    fmt::format("listening at {} port {}: {}", door_.listen, wanted,
                                why == 0 ? "that is no address of this host" : strerror(why))};
        }
        port_ = static_cast<std::uint16_t>(got);
        thread_ = std::thread([this] { server_.listen_after_bind(); });
        // Until then a stop would be overheard.
        while (!server_.is_running())
            std::this_thread::yield();
        return {};
    }

    [[nodiscard]] std::uint16_t port() const override { return port_; }

    [[nodiscard]] std::string address() const override {
        const bool six = door_.listen.find(':') != std::string::npos;
        return fmt::format("http://{}{}{}:{}/{}/", six ? "[" : "", door_.listen, six ? "]" : "",
                           port_, door_.token);
    }

  private:
    void handle(const httplib::Request& request, httplib::Response& response) {
        const auto header = [&](const char* name) {
            // Two of a kind are one too many to be believed.
            return request.get_header_value_count(name) == 1 ? request.get_header_value(name)
                                                             : std::string();
        };
        const std::string host = header("Host");
        const std::string authorization = header("Authorization");
        const Admission admission =
            admit({request.method, request.path, host, authorization}, door_);
        if (admission.status != 200) {
            if (admission.status == 401) response.set_header("WWW-Authenticate", "Bearer");
            if (admission.status == 405) response.set_header("Allow", "GET, HEAD");
            return refuse(response, admission.status, admission.sentence);
        }
        if (admission.folder) return response.set_redirect("/" + door_.token + "/");
        serve(admission.path, request, response);
    }

    void serve(const std::string& path, const httplib::Request& request,
               httplib::Response& response) {
        if (path == "api/live") return answer(response, 200, watch_.live(), json_type);
        if (path == "metrics") return answer(response, 200, watch_.metrics(), metrics_content_type);
        if (path == "api/version") return answer(response, json{{"version", version_}});
        if (path == "api/sim/catalogue") return answer(response, simulator_.catalogue());
        if (path == "api/sim/run") return answer(response, simulator_.run(request.params));
        if (path == "api/sim/curves") return answer(response, simulator_.curves(request.params));
        const std::string name = path.empty() ? "index.html" : path;
        for (const PageFile& file : page_files())
            if (file.name == name)
                return answer(response, 200, std::string(file.text), content_type(name));
        refuse(response, 404, "There is nothing of that name here.");
    }

    Door door_;
    std::string version_;
    LiveWatch watch_;
    Simulator simulator_;
    httplib::Server server_;
    std::thread thread_;
    std::uint16_t port_ = 0;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(Options options) {
    const std::uint16_t port = options.port;
    auto server = std::make_unique<RunningServer>(std::move(options));
    if (auto listening = server->listen(port); !listening) return std::move(listening).error();
    return std::unique_ptr<Server>(std::move(server));
}

}  // namespace via::tool::web
