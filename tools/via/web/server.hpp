// SPDX-License-Identifier: BSD-3-Clause
// The HTTP server of the page. It answers GET only, and only who knows the token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "lab/lab.hpp"
#include "web/access.hpp"

namespace via::tool::web {

class Server {
  public:
    struct Options {
        Door door;
        std::uint16_t port = 0;  ///< 0: any that is free
        std::optional<lab::Lab> lab;
        std::string version;
    };

    /// Serves from here on, with threads of its own, until the object goes.
    [[nodiscard]] static base::Result<std::unique_ptr<Server>> start(Options options);
    virtual ~Server() = default;

    [[nodiscard]] virtual std::uint16_t port() const = 0;
    /// The whole address, token included.
    [[nodiscard]] virtual std::string address() const = 0;
};

}  // namespace via::tool::web
