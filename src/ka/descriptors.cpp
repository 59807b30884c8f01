// SPDX-License-Identifier: BSD-3-Clause
#include "ka/descriptors.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/memory_file.hpp"

namespace via::ka {

using base::Code;
using base::Error;
using base::Result;
using base::UniqueFd;

Result<void> verify_plain_memory(const UniqueFd& file, std::size_t bytes) {
    // First the seals, which only memfds have: asking another file's size could block.
    if (auto verified = base::verify_memory_file(file, bytes); !verified) return verified;
    struct statfs system {};
    if (fstatfs(file.get(), &system) != 0)
        return base::system_error(errno, "cannot look at a descriptor");
    if (static_cast<std::uint64_t>(system.f_type) != TMPFS_MAGIC)
        return Result<void>(Code::ProtocolViolation, "shared memory that is not of ordinary pages");
    return {};
}

Result<void> verify_eventfd(const UniqueFd& file) {
    const std::string name = "/proc/self/fd/" + std::to_string(file.get());
    std::array<char, 64> target{};
    const ssize_t length = readlink(name.c_str(), target.data(), target.size());
    if (length < 0) return base::system_error(errno, "cannot look at a descriptor");
    if (std::string_view(target.data(), static_cast<std::size_t>(length)) != "anon_inode:[eventfd]")
        return Result<void>(Code::ProtocolViolation, "a doorbell event that is not an eventfd");
    return {};
}

std::uint64_t descriptor_limit() noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    return limit.rlim_cur;
}

Error name_descriptor_limit(Error error, const char* whose) {
    constexpr std::string_view named = "; RLIMIT_NOFILE is ";
    if (const std::size_t at = error.sentence.find(named); at != std::string::npos) {
        error.sentence.insert(at + 2, std::string(whose) + " ");
        return error;
    }
    const UniqueFd probe(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (probe.valid() || (errno != EMFILE && errno != ENFILE)) return error;
    error.code = Code::OutOfResources;
    error.sentence += errno == ENFILE ? "; the system is out of file descriptors (fs.file-max)"
                                      : std::string("; ") + whose + " RLIMIT_NOFILE is " +
                                            std::to_string(descriptor_limit());
    return error;
}

void Disposal::run(const std::shared_ptr<Shared>& shared) {
    std::unique_lock lock(shared->mutex);
    while (!shared->queue.empty()) {
        auto [uid, fd] = std::move(shared->queue.front());
        shared->queue.pop_front();
        lock.unlock();
        fd.reset();
        lock.lock();
        if (--shared->counts[uid] == 0) shared->counts.erase(uid);
    }
    shared->running = false;
}

void Disposal::dispose(uid_t uid, UniqueFd fd) {
    if (!fd.valid()) return;
    const std::lock_guard lock(shared_->mutex);
    ++shared_->counts[uid];
    shared_->queue.emplace_back(uid, std::move(fd));
    if (shared_->running) return;
    try {
        std::thread(run, shared_).detach();
        shared_->running = true;
    } catch (const std::system_error&) {
        // No thread to be had now; the next one takes this along.
    }
}

std::size_t Disposal::pending(uid_t uid) const {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->counts.find(uid);
    return found == shared_->counts.end() ? 0 : found->second;
}

}  // namespace via::ka
