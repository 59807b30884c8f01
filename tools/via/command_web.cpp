// SPDX-License-Identifier: BSD-3-Clause
// `via web`: a page that shows what happens on this host, live, and the simulator.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "command.hpp"
#include "lab/lab.hpp"
#include "web/server.hpp"

namespace via::tool {
namespace {

using base::Code;
using base::Result;

struct WebOptions {
    std::string listen = "127.0.0.1";
    std::uint16_t port = 0;
    bool expose = false;
    std::string token_file;
    std::optional<std::string> lab;
    bool json = false;
};

std::string own_host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

Result<web::Server::Options> server_options(const WebOptions& options) {
    web::Server::Options server;
    server.door.listen = options.listen == "localhost" ? "127.0.0.1" : options.listen;
    if (!web::is_address(server.door.listen))
        return {Code::InvalidArgument,
                "--listen is '" + options.listen + "'; it must be an address in digits"};
    if (!web::is_loopback(server.door.listen) && !options.expose)
        return {Code::InvalidArgument,
                options.listen +
                    " can be reached from other hosts, without encryption: whoever sees the "
                    "traffic has the token. ssh -L is the safe way; --expose does it anyway"};
    server.door.exposed = options.expose;
    server.door.own_name = own_host_name();
    auto token =
        options.token_file.empty() ? web::make_token() : web::token_of_file(options.token_file);
    if (!token) return std::move(token).error();
    server.door.token = std::move(token).value();
    server.port = options.port;
    server.version = version_text();
    if (options.lab) {
        auto lab = lab::Lab::find(options.lab->empty() ? "lab" : *options.lab);
        if (!lab) return std::move(lab).error();
        server.lab.emplace(std::move(lab).value());
    }
    return server;
}

int run(const WebOptions& options) {
    auto wanted = server_options(options);
    if (!wanted) return report_failure(wanted.error());
    // Before there are other threads, so that all of them leave these to the wait below.
    sigset_t ends;
    sigemptyset(&ends);
    for (const int one : {SIGINT, SIGTERM, SIGHUP})
        sigaddset(&ends, one);
    pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    signal(SIGPIPE, SIG_IGN);
    const std::string token = wanted.value().door.token;
    const auto server = web::Server::start(std::move(wanted).value());
    if (!server) return report_failure(server.error());
    const std::string address = server.value()->address();
    if (options.json) {
        print_json_line({{"address", address},
                         {"port", server.value()->port()},
                         {"token", token},
                         {"pid", getpid()}});
    } else {
        fmt::print("The page is at\n\n    {}\n\n", address);
        if (options.expose)
            fmt::print("Other hosts can reach it. It is not encrypted, so neither is the token.\n");
        fmt::print(
            "Who has the address may look, and change nothing. For Prometheus: {}metrics\n"
            "Ctrl-C ends it.\n",
            address);
        fflush(stdout);
    }
    int received = 0;
    sigwait(&ends, &received);
    return status_good;
}

}  // namespace

void add_web_command(CLI::App& app, int& status) {
    auto options = std::make_shared<WebOptions>();
    CLI::App* command = app.add_subcommand(
        "web", "Serve a page that shows processes, links, the agent and the simulator, live");
    command->add_option("--port", options->port, "Listen at this port; 0: any that is free")
        ->capture_default_str();
    command->add_option("--listen", options->listen, "Listen at this address of the host")
        ->capture_default_str();
    command->add_flag("--expose", options->expose,
                      "Allow an address that other hosts can reach; nothing is encrypted");
    command->add_option("--token-file", options->token_file,
                        "Keep the token in this file, so that it is the same at the next start");
    auto name = std::make_shared<std::string>();
    CLI::Option* lab =
        command->add_option("--lab", *name, "Also the hosts of this lab (default 'lab')")
            ->expected(0, 1)
            ->type_name("[NAME]");
    command->add_flag("--json", options->json, "Print the address as a line of JSON");
    command->callback([options, name, lab, &status] {
        if (lab->count() > 0) options->lab = *name;
        status = run(*options);
    });
}

}  // namespace via::tool
