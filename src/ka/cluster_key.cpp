// SPDX-License-Identifier: BSD-3-Clause
#include "ka/cluster_key.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/fd.hpp"

namespace via::ka {

using base::Code;
using base::Result;

Result<wire::Key> read_cluster_key(const std::string& file, const std::string& text) {
    if (file.empty()) return wire::cluster_key(text);
    // Whoever waits behind a pipe must not stop the agent.
    const base::UniqueFd opened(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened.valid())
        return base::system_error(errno,
                                  "cannot read the cluster's key (VIA_NET_KEY_FILE) from " + file);
    struct stat status {};
    if (fstat(opened.get(), &status) != 0)
        return base::system_error(errno, "cannot look at the cluster's key " + file);
    const std::string user = std::to_string(geteuid());
    if (!S_ISREG(status.st_mode))
        return Result<wire::Key>(Code::PermissionDenied,
                                 "the cluster's key " + file + " is no ordinary file");
    if (status.st_uid != geteuid())
        return Result<wire::Key>(Code::PermissionDenied,
                                 "the cluster's key " + file + " belongs to user " +
                                     std::to_string(status.st_uid) + ": chown it to user " + user +
                                     ", whose kernel agent this is");
    if ((status.st_mode & 07777 & ~static_cast<mode_t>(S_IRUSR | S_IWUSR)) != 0)
        return Result<wire::Key>(
            Code::PermissionDenied,
            "the cluster's key " + file + " can be used by others than its owner: chmod 600 it");
    std::array<char, 4096> content{};
    const ssize_t count = read(opened.get(), content.data(), content.size());
    if (count < 0) return base::system_error(errno, "cannot read the cluster's key " + file);
    const std::string_view secret(content.data(), static_cast<std::size_t>(count));
    if (wire::cluster_key(secret) == wire::cluster_key(""))
        return Result<wire::Key>(
            Code::InvalidArgument,
            "the cluster's key " + file + " is empty: write a long random line into it");
    return wire::cluster_key(secret);
}

}  // namespace via::ka
