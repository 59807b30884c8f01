// SPDX-License-Identifier: BSD-3-Clause
#include "ka/agent_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/message_socket.hpp"

namespace via::ka {
namespace {

using base::Code;
using base::Result;
using base::UniqueFd;

std::string lock_path(const std::string& path) {
    return path + ".lock";
}

/// The lock of a path, held. InvalidState: a living agent has it.
Result<UniqueFd> take_lock(const std::string& path) {
    for (;;) {
        UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!lock.valid()) return base::system_error(errno, "cannot open the lock file " + path);
        if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK)
                return Result<UniqueFd>(Code::InvalidState,
                                        "another kernel agent holds the lock " + path);
            return base::system_error(errno, "cannot lock " + path);
        }
        // The agent that had it may have removed the file between our open and our lock.
        struct stat held {};
        struct stat named {};
        if (fstat(lock.get(), &held) == 0 && stat(path.c_str(), &named) == 0 &&
            held.st_ino == named.st_ino && held.st_dev == named.st_dev)
            return lock;
    }
}

}  // namespace

std::string system_agent_socket() {
    return "@viaduct/system";
}

std::string user_agent_socket(uid_t uid) {
    return "@viaduct/user/" + std::to_string(uid);
}

Result<AgentSocket> AgentSocket::bind(const std::string& address) {
    AgentSocket result;
    const bool abstract = !address.empty() && address.front() == '@';
    if (!abstract && !address.empty()) {
        auto lock = take_lock(lock_path(address));
        if (!lock) return std::move(lock).error();
        result.lock_ = std::move(lock).value();
        struct stat left {};
        if (lstat(address.c_str(), &left) == 0) {
            if (!S_ISSOCK(left.st_mode))
                return Result<AgentSocket>(Code::InvalidArgument,
                                           address + " exists and is not a socket");
            unlink(address.c_str());
        }
    }
    auto listener = base::listen_message_socket(address);
    if (!listener) return std::move(listener).error();
    result.listener_ = std::move(listener).value();
    if (!abstract) {
        result.path_ = address;
        // Root's agent serves everybody; who they are, their credentials say.
        if (chmod(address.c_str(), geteuid() == 0 ? 0666 : 0600) != 0)
            return base::system_error(errno, "cannot set the mode of " + address);
    }
    return result;
}

AgentSocket::~AgentSocket() {
    if (path_.empty() || !lock_.valid()) return;
    unlink(path_.c_str());
    unlink(lock_path(path_).c_str());
}

}  // namespace via::ka
