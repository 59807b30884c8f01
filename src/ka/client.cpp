// SPDX-License-Identifier: BSD-3-Clause
#include "ka/client.hpp"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "ka/client_attachment.hpp"
#include "ka/launcher.hpp"

namespace via::ka::attachment {

Client::~Client() {
    if (forked()) return;
    // Also for copies of the descriptor in children: the agent must see the end now.
    if (socket_.valid()) shutdown(socket_.get(), SHUT_RDWR);
    for (const auto& [handle, region] : holdings_.regions)
        if (pins_memory_) pins_.unpin(region.address, region.bytes);
}

Result<void> Client::start(Deadline deadline) {
    interrupt_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!interrupt_.valid()) return base::system_error(errno, "cannot create an eventfd");
    watch_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    if (!watch_.valid())
        return name_descriptor_limit(base::system_error(errno, "cannot create an epoll descriptor"),
                                     "this process's");
    Lock lock(mutex_);
    return ensure_attached(lock, may_start_, deadline);
}

Result<void> Client::ensure_attached(Lock& lock, bool may_start, Deadline deadline) {
    while (!attached_) {
        if (deadline.expired() && attaching_)
            return Result<void>(Code::Timeout,
                                "the kernel agent is gone and attaching to a new "
                                "one takes too long");
        // A reader of the old socket finishes first.
        if (attaching_ || leader_) {
            attaching_changed_.wait_until(lock, time_point(deadline));
            continue;
        }
        attaching_ = true;
        lock.unlock();
        base::Undo ended([&] {
            lock.lock();
            attaching_ = false;
            attaching_changed_.notify_all();
        });
        if (auto made = make_attachment(may_start, deadline); !made) return made;
    }
    return {};
}

Result<void> Client::make_attachment(bool may_start, Deadline deadline) {
    for (;;) {
        auto connection = may_start ? find_or_start_agent(deadline) : find_agent();
        if (!connection) return std::move(connection).error();
        auto introduced =
            introduce(std::move(connection.value().socket), deadline.earlier(answer_deadline()));
        if (introduced || introduced.error().code != Code::ConnectionLost || deadline.expired())
            return introduced;
        // The agent was about to end; the next one is found or started after a breath.
        const timespec breath{0, 1'000'000};
        nanosleep(&breath, nullptr);
    }
}

Result<void> Client::introduce(UniqueFd socket, Deadline deadline) {
    Conversation conversation(socket, deadline);
    AttachRequest request;
    request.program = FixedText<64>(program_invocation_short_name);
    request.rmmt_epoch = epoch_.load(std::memory_order_relaxed) + 1;
    request.arena_floor = holdings_.arena_floor();
    request.instance = instance_;
    request.restoring = observer_ ? 0 : 1;
    std::vector<int> fds;
    const auto offer = [&](std::uint32_t bit, int fd) {
        if (fd < 0) return;
        request.descriptors |= bit;
        fds.push_back(fd);
    };
    offer(attach_doorbell_memory, resources_.doorbell_memory);
    offer(attach_doorbell_event, resources_.doorbell_event);
    offer(attach_counters, resources_.counters);
    auto answer = conversation.ask(request, fds);
    auto attached = expect<AttachedReply>(answer);
    if (!attached) return std::move(attached).error();
    net_port_.store(static_cast<std::uint16_t>(attached.value().net_port),
                    std::memory_order_relaxed);
    if (!observer_) {
        if (answer.value().fds.empty()) return lost_descriptors();
        if (auto restored = conversation.restore(holdings_); !restored) return restored;
        // Only now, when the new table knows all regions, does it take the old one's place.
        if (auto mapped = map_table(answer.value().fds.front()); !mapped) return mapped;
    }
    const Lock lock(mutex_);
    // Peer requests that were under way are asked again.
    for (const auto& [id, slot] : peers_) {
        if (slot->state == Slot::State::Answered) continue;
        const PeerRequestRequest again{timeout_of(slot->deadline), slot->offer};
        if (auto told = conversation.tell(encode(id, again)); !told) return told;
    }
    for (const auto& [id, slot] : peers_) {
        if (slot->state == Slot::State::Answered) continue;
        slot->state = Slot::State::Waiting;
        slots_[id] = slot;
    }
    // Closing alone would leave it in the watch while a child of fork() has it open.
    if (socket_.valid()) epoll_ctl(watch_.get(), EPOLL_CTL_DEL, socket_.get(), nullptr);
    socket_ = std::move(socket);
    attached_ = true;
    ++attachment_;
    epoch_.fetch_add(1, std::memory_order_release);
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    if (epoll_ctl(watch_.get(), EPOLL_CTL_ADD, socket_.get(), &event) != 0)
        base::log(LogLevel::Warning, "cannot watch the kernel agent's socket");
    for (AgentMessage& message : conversation.unclaimed())
        dispatch(std::move(message));
    return {};
}

Result<void> Client::map_table(const UniqueFd& file) {
    if (auto verified = base::verify_memory_file(file, rmmt_bytes); !verified) return verified;
    if (!table_.valid()) {
        auto mapping = base::Mapping::map(file, rmmt_bytes, base::Access::ReadOnly);
        if (!mapping) return std::move(mapping).error();
        table_ = std::move(mapping).value();
        return {};
    }
    // Over the old table, in one step: readers never see an unmapped address, and a look-up that
    // straddles the change repeats itself because the stamps differ. The system call itself,
    // because the thread sanitizer takes mmap() for writing all of the range. The offset has its
    // full width: of an int that travels on the stack the upper half may be anything.
    if (syscall(SYS_mmap, table_.data(), rmmt_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(),
                off_t{0}) == -1)
        return base::system_error(errno, "cannot map the RMMT of the new kernel agent");
    return {};
}

bool Client::attached() const noexcept {
    if (forked()) return false;
    auto* self =
        const_cast<Client*>(this);  // what the agent has said is read, nothing else changes
    try {
        Lock lock(self->mutex_);
        self->read_what_is_there(lock);
        return attached_;
    } catch (...) {
        return false;
    }
}

bool Client::reattach_if_running() noexcept {
    if (forked()) return false;
    try {
        Lock lock(mutex_);
        read_what_is_there(lock);
        return ensure_attached(lock, false, answer_deadline()).ok();
    } catch (...) {
        return false;
    }
}

}  // namespace via::ka::attachment

namespace via::ka {

using base::Deadline;
using base::Result;

namespace {

Result<std::unique_ptr<AgentClient>> attach_client(const ProcessResources& resources,
                                                   Deadline deadline, bool may_start) {
    auto client = std::make_unique<attachment::Client>(resources, may_start);
    if (auto started = client->start(deadline); !started) return std::move(started).error();
    return std::unique_ptr<AgentClient>(std::move(client));
}

}  // namespace

Result<std::unique_ptr<AgentClient>> AgentClient::attach(const ProcessResources& resources,
                                                         Deadline deadline) {
    return attach_client(resources, deadline, true);
}

Result<std::unique_ptr<AgentClient>> AgentClient::attach_if_running(
    const ProcessResources& resources, Deadline deadline) {
    return attach_client(resources, deadline, false);
}

}  // namespace via::ka
