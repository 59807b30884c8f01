// SPDX-License-Identifier: BSD-3-Clause
// Who is let in to the page: those who know the token, and only by a name that is this host's own.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace via::tool::web {

/// 32 hexadecimal digits by chance.
[[nodiscard]] base::Result<std::string> make_token();
/// From the file if it is there, else a new one that is written into it, for its owner only.
[[nodiscard]] base::Result<std::string> token_of_file(const std::string& path);

/// How long it takes says nothing about where they differ.
[[nodiscard]] bool same_secret(std::string_view one, std::string_view other) noexcept;

/// 127.*, ::1 or "localhost".
[[nodiscard]] bool is_loopback(std::string_view address);
/// An IPv4 or IPv6 address in digits, without brackets.
[[nodiscard]] bool is_address(std::string_view text);

struct Door {
    std::string token;
    std::string listen;    ///< the address that is listened at
    bool exposed = false;  ///< it may be another than loopback
    std::string own_name;  ///< of the host
};

/// A name that somebody else's page has chosen for our address (DNS rebinding) is refused: allowed
/// are addresses in digits, "localhost" and, if exposed, the host's own name.
[[nodiscard]] bool host_allowed(std::string_view host_header, const Door& door);

/// What a request is worth before anybody looks at what it wants.
struct Asked {
    std::string_view method;
    std::string_view path;
    std::string_view host;           ///< the header; empty: none
    std::string_view authorization;  ///< likewise
};
struct Admission {
    int status = 200;
    std::string path;      ///< if let in: without the token, "api/live"
    std::string sentence;  ///< if not: why
    bool folder = false;   ///< the token without a slash behind it: the page's links would be wrong
};
/// "/TOKEN/path", or "/path" with "Authorization: Bearer TOKEN".
[[nodiscard]] Admission admit(const Asked& asked, const Door& door);

}  // namespace via::tool::web
