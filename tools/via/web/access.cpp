// SPDX-License-Identifier: BSD-3-Clause
#include "web/access.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "base/fd.hpp"

namespace via::tool::web {
namespace {

using base::Code;
using base::Result;

constexpr std::size_t token_bytes = 16;
constexpr std::size_t least_token_characters = 16;
constexpr std::size_t most_token_characters = 128;

std::string lower_case(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), [](unsigned char character) {
        return static_cast<char>(std::tolower(character));
    });
    return result;
}

/// The name in "name", "name:port" and "[address]:port"; empty if it is none of them.
std::string name_of(std::string_view host_header) {
    std::string_view port;
    std::string_view name = host_header;
    if (host_header.starts_with('[')) {
        const std::size_t end = host_header.find(']');
        if (end == std::string_view::npos) return {};
        name = host_header.substr(1, end - 1);
        port = host_header.substr(end + 1);
    } else if (const std::size_t colon = host_header.find(':'); colon != std::string_view::npos) {
        name = host_header.substr(0, colon);
        port = host_header.substr(colon);
    }
    if (!port.empty() && (port.front() != ':' ||
                          !std::all_of(port.begin() + 1, port.end(), [](unsigned char character) {
                              return std::isdigit(character);
                          })))
        return {};
    return lower_case(name);
}

bool fit_for_address(std::string_view token) {
    return token.size() >= least_token_characters && token.size() <= most_token_characters &&
           std::all_of(token.begin(), token.end(), [](unsigned char character) {
               return std::isalnum(character) || character == '-' || character == '_';
           });
}

Result<std::string> read_token(int file, const std::string& path) {
    struct stat about {};
    if (fstat(file, &about) != 0)
        return base::system_error(errno, "looking at the token file " + path);
    if ((about.st_mode & 077U) != 0)
        return {Code::InvalidArgument,
                path + " can be read by others than its owner; chmod 600 makes it a secret"};
    std::array<char, most_token_characters + 2> text{};
    const ssize_t count = read(file, text.data(), text.size());
    if (count < 0) return base::system_error(errno, "reading the token file " + path);
    std::string token(text.data(), static_cast<std::size_t>(count));
    while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())))
        token.pop_back();
    if (!fit_for_address(token))
        return {Code::InvalidArgument,
                path + " holds no token: from 16 to 128 letters, digits, '-' and '_'"};
    return token;
}

}  // namespace

Result<std::string> make_token() {
    std::array<std::uint8_t, token_bytes> random{};
    if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        return base::system_error(errno, "getting random bytes for a token");
    constexpr std::string_view digits = "0123456789abcdef";
    std::string token;
    for (const std::uint8_t byte : random) {
        token += digits[byte >> 4U];
        token += digits[byte & 0xFU];
    }
    return token;
}

Result<std::string> token_of_file(const std::string& path) {
    const base::UniqueFd present(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (present.valid()) return read_token(present.get(), path);
    if (errno != ENOENT) return base::system_error(errno, "opening the token file " + path);
    auto token = make_token();
    if (!token) return token;
    const base::UniqueFd made(
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!made.valid()) return base::system_error(errno, "creating the token file " + path);
    const std::string line = token.value() + "\n";
    if (write(made.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
        return base::system_error(errno, "writing the token file " + path);
    return token;
}

bool same_secret(std::string_view one, std::string_view other) noexcept {
    // Of another length it is wrong, and the length is no secret; the rest is looked at to its end.
    volatile unsigned char differences = one.size() == other.size() ? 0 : 1;
    for (std::size_t i = 0; i < one.size() && !other.empty(); ++i)
        differences = static_cast<unsigned char>(
            differences | (static_cast<unsigned char>(one[i]) ^
                           static_cast<unsigned char>(other[i % other.size()])));
    return differences == 0 && !one.empty();
}

bool is_address(std::string_view text) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    const std::string copy(text);
    return inet_pton(AF_INET, copy.c_str(), bytes.data()) == 1 ||
           inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1;
}

bool is_loopback(std::string_view address) {
    const std::string copy = lower_case(address);
    if (copy == "localhost") return true;
    in_addr four{};
    if (inet_pton(AF_INET, copy.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24U == 127;
    in6_addr six{};
    return inet_pton(AF_INET6, copy.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool host_allowed(std::string_view host_header, const Door& door) {
    const std::string name = name_of(host_header);
    if (name.empty()) return false;
    if (is_loopback(name) || name == lower_case(door.listen)) return true;
    // No name server can make digits mean something else.
    return door.exposed && (is_address(name) || name == lower_case(door.own_name));
}

Admission admit(const Asked& asked, const Door& door) {
    if (asked.method != "GET" && asked.method != "HEAD")
        return {405, {}, "The page only shows: there is nothing but GET.", false};
    if (!host_allowed(asked.host, door))
        return {403,
                {},
                "The request names a host that is not this one. Use the address that via web "
                "has printed.",
                false};
    if (!asked.path.starts_with('/')) return {400, {}, "That is no path.", false};
    const std::string_view path = asked.path.substr(1);
    const std::size_t slash = path.find('/');
    if (same_secret(path.substr(0, slash), door.token)) {
        if (slash == std::string_view::npos) return {200, {}, {}, true};
        return {200, std::string(path.substr(slash + 1)), {}, false};
    }
    constexpr std::string_view scheme = "bearer ";
    if (asked.authorization.size() > scheme.size() &&
        lower_case(asked.authorization.substr(0, scheme.size())) == scheme &&
        same_secret(asked.authorization.substr(scheme.size()), door.token))
        return {200, std::string(path), {}, false};
    return {401,
            {},
            "The token is missing or wrong. Use the whole address that via web has printed; each "
            "start makes a new one.",
            false};
}

}  // namespace via::tool::web
