// SPDX-License-Identifier: BSD-3-Clause
#include "na/doorbell.hpp"

#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/futex.hpp"

namespace via::na {

void ring_doorbell(DoorbellPage& page, int event, std::uint32_t index, Wakes wakes) noexcept {
    const std::uint32_t bit = index % doorbell_endpoints;
    page.marks[bit / 64].fetch_or(std::uint64_t{1} << (bit % 64), std::memory_order_release);
    page.summary.fetch_or(std::uint64_t{1} << (bit / 64), std::memory_order_release);
    page.epoch.fetch_add(1, std::memory_order_seq_cst);
    if (page.sleepers.load(std::memory_order_seq_cst) != 0)
        base::futex_wake_all(page.epoch, base::FutexScope::Shared);
    if (wakes == Wakes::Service) ring_service(event);
}

void ring_service(int event) noexcept {
    const std::uint64_t one = 1;
    // A full counter (EAGAIN) means that it is awake already.
    [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof one);
}

bool enable_asymmetric_barrier() noexcept {
    static const bool enabled =
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
    return enabled;
}

void asymmetric_barrier() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (enable_asymmetric_barrier()) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

base::Result<Doorbell> Doorbell::create() {
    Doorbell doorbell;
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = (sizeof(DoorbellPage) + page - 1) / page * page;
    auto memory = base::create_memory_file("viaduct-doorbell", bytes, base::Backing::Allocated);
    if (!memory) return std::move(memory).error();
    doorbell.memory_ = std::move(memory).value();
    auto mapping = base::Mapping::map(doorbell.memory_, bytes, base::Access::ReadWrite);
    if (!mapping) return std::move(mapping).error();
    doorbell.mapping_ = std::move(mapping).value();
    doorbell.event_ = base::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!doorbell.event_.valid()) return base::system_error(errno, "cannot create an eventfd");
    return doorbell;
}

std::uint32_t Doorbell::enter() noexcept {
    page().sleepers.fetch_add(1, std::memory_order_seq_cst);
    return page().epoch.load(std::memory_order_seq_cst);
}

void Doorbell::sleep(std::uint32_t ticket, base::Deadline deadline) noexcept {
    base::futex_wait(page().epoch, ticket, deadline, base::FutexScope::Shared);
}

void Doorbell::leave() noexcept {
    page().sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void Doorbell::wake_local() noexcept {
    page().epoch.fetch_add(1, std::memory_order_seq_cst);
    base::futex_wake_all(page().epoch, base::FutexScope::Shared);
}

}  // namespace via::na
