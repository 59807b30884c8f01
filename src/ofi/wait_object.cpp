// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/wait_object.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <cstdint>

#include "ofi/provider.hpp"

namespace via::ofi {

WaitObject::~WaitObject() {
    pthread_cond_destroy(&condition_);
    pthread_mutex_destroy(&mutex_);
}

int WaitObject::open(fi_wait_obj kind) {
    switch (kind) {
        case FI_WAIT_NONE:
        case FI_WAIT_YIELD:
        case FI_WAIT_SET:
        case FI_WAIT_MUTEX_COND:
            kind_ = kind;
            return 0;
        case FI_WAIT_UNSPEC:
        case FI_WAIT_FD:
        case FI_WAIT_POLLFD:
            kind_ = kind == FI_WAIT_UNSPEC ? FI_WAIT_FD : kind;
            fd_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
            if (fd_.valid()) return 0;
            VIA_OFI_WARN(FI_LOG_CQ, "eventfd: errno %d\n", errno);
            return -errno;
    }
    return -FI_ENOSYS;
}

int WaitObject::control(int command, void* argument) const {
    switch (command) {
        case FI_GETWAIT:
            return give(argument);
        case FI_GETWAITOBJ:
            *static_cast<fi_wait_obj*>(argument) = kind_;
            return 0;
        default:
            return -FI_ENOSYS;
    }
}

int WaitObject::give(void* to) const {
    if (to == nullptr) return -FI_EINVAL;
    switch (kind_) {
        case FI_WAIT_FD:
            *static_cast<int*>(to) = fd_.get();
            return 0;
        case FI_WAIT_POLLFD: {
            auto& request = *static_cast<fi_wait_pollfd*>(to);
            const std::size_t room = request.nfds;
            request.nfds = 1;
            request.change_index = 1;
            if (room < 1) return -FI_ETOOSMALL;
            request.fd[0] = {fd_.get(), POLLIN, 0};
            return 0;
        }
        case FI_WAIT_MUTEX_COND:
            *static_cast<fi_mutex_cond*>(to) = {&mutex_, &condition_};
            return 0;
        default:
            return -FI_ENODATA;
    }
}

void WaitObject::prepare() noexcept {
    std::uint64_t count = 0;
    if (fd_.valid())
        while (read(fd_.get(), &count, sizeof count) < 0 && errno == EINTR) {
        }
    wanted_.store(true, std::memory_order_seq_cst);
}

void WaitObject::signal() noexcept {
    wanted_.store(false, std::memory_order_relaxed);
    if (fd_.valid()) {
        const std::uint64_t one = 1;
        while (write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
        }
    }
    if (kind_ == FI_WAIT_MUTEX_COND) {
        pthread_mutex_lock(&mutex_);
        pthread_cond_broadcast(&condition_);
        pthread_mutex_unlock(&mutex_);
    }
}

void WaitObject::sleep(base::Deadline deadline) noexcept {
    pollfd one{fd_.get(), POLLIN, 0};
    poll(&one, 1, deadline.poll_milliseconds());
}

}  // namespace via::ofi
