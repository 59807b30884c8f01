// SPDX-License-Identifier: BSD-3-Clause
#include "openmpi/meeting.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

namespace via::openmpi {
namespace {

using base::Code;
using base::Result;

/// 0: the kernel does not say.
std::uint64_t own_pid_namespace() noexcept {
    struct stat what;
    return ::stat("/proc/self/ns/pid", &what) == 0 ? what.st_ino : 0;
}

}  // namespace

Meeting::Meeting(base::Mapping memory, std::uint32_t rank, std::uint32_t ranks, Patience patience)
    : mapping_(std::move(memory)),
      places_(reinterpret_cast<Place*>(mapping_.data() + sizeof(Head))),
      rank_(rank),
      ranks_(ranks),
      patience_(patience) {
    head().pids[rank].store(::getpid(), std::memory_order_relaxed);
}

Result<Meeting::Made> Meeting::make(std::uint32_t rank, std::uint32_t ranks, Patience patience) {
    auto file =
        base::create_memory_file("viaduct-meeting", bytes_for(ranks), base::Backing::Allocated);
    if (!file) return std::move(file).error();
    auto mapping = base::Mapping::map(file.value(), bytes_for(ranks), base::Access::ReadWrite);
    if (!mapping) return std::move(mapping).error();
    Made made;
    do {
        if (::getrandom(&made.invitation.token, sizeof made.invitation.token, 0) < 0)
            return Result<Made>(Code::OutOfResources, "the kernel gives no random number");
    } while (made.invitation.token == 0);
    made.invitation.pid_namespace = own_pid_namespace();
    made.invitation.pid = ::getpid();
    made.invitation.descriptor = file.value().get();
    made.file = std::move(file).value();
    made.meeting.reset(new Meeting(std::move(mapping).value(), rank, ranks, patience));
    made.meeting->head().token = made.invitation.token;
    return made;
}

Result<std::unique_ptr<Meeting>> Meeting::join(const Invitation& invitation, std::uint32_t rank,
                                               std::uint32_t ranks, Patience patience) {
    using Joined = Result<std::unique_ptr<Meeting>>;
    if (invitation.pid_namespace == 0 || invitation.pid_namespace != own_pid_namespace())
        return Joined(Code::NotSupported, "the ranks are in several containers");
    const std::string path =
        "/proc/" + std::to_string(invitation.pid) + "/fd/" + std::to_string(invitation.descriptor);
    base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file.valid())
        return Joined(Code::NotSupported, "memory of process " + std::to_string(invitation.pid) +
                                              " can not be opened: " + std::strerror(errno));
    if (auto right = base::verify_memory_file(file, bytes_for(ranks)); !right)
        return std::move(right).error();
    auto mapping = base::Mapping::map(file, bytes_for(ranks), base::Access::ReadWrite);
    if (!mapping) return std::move(mapping).error();
    if (reinterpret_cast<const Head*>(mapping.value().data())->token != invitation.token)
        return Joined(Code::NotSupported, "process " + std::to_string(invitation.pid) +
                                              " has other memory than it said");
    return std::unique_ptr<Meeting>(new Meeting(std::move(mapping).value(), rank, ranks, patience));
}

void Meeting::arrive(const void* bytes, std::size_t count) noexcept {
    ++turn_;
    core_ = static_cast<std::uint32_t>(::sched_getcpu() + 1) & 0xFFFF;
    Place& own = place(rank_, turn_);
    const std::uint64_t turn = turn_of(turn_, core_);
    in_word_ = count <= sizeof(std::uint64_t);
    if (in_word_) [[likely]] {
        std::uint64_t word = 0;
        if (count == sizeof word)
            std::memcpy(&word, bytes, sizeof word);
        else if (count != 0)
            std::memcpy(&word, bytes, count);
        base::store_together(own.word, own.turn, word, turn);
        return;
    }
    std::memcpy(own.bytes, bytes, count);
    own.turn.store(turn, std::memory_order_release);
}

bool Meeting::anybody_is_over() const noexcept {
    for (std::uint32_t each = 0; each < ranks_; ++each) {
        if (place(each, turn_).turn.load(std::memory_order_relaxed) >> 16 == turn_) continue;
        const pid_t pid = head().pids[each].load(std::memory_order_relaxed);
        if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) return true;
    }
    return false;
}

}  // namespace via::openmpi
