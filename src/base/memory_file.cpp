// SPDX-License-Identifier: BSD-3-Clause
#include "base/memory_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace via::base {

Result<UniqueFd> create_memory_file(const char* name, std::size_t bytes, Backing backing,
                                    Sharing sharing) {
    UniqueFd file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file.valid())
        return system_error(errno, std::string("cannot create shared memory '") + name + "'");
    if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
        return system_error(errno,
                            "cannot size shared memory to " + std::to_string(bytes) + " bytes");
    if (backing == Backing::Allocated) {
        if (auto allocated = allocate_range(file, 0, bytes); !allocated)
            return std::move(allocated).error();
    }
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    // Sealed against further seals, or a receiver could forbid writing to everybody else.
    if (sharing == Sharing::Shared) seals |= F_SEAL_SEAL;
    if (fcntl(file.get(), F_ADD_SEALS, seals) != 0)
        return system_error(errno, std::string("cannot seal shared memory '") + name + "'");
    return file;
}

Result<void> allocate_range(const UniqueFd& file, std::size_t offset, std::size_t bytes) {
    const int failure =
        posix_fallocate(file.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
    if (failure != 0)
        return system_error(failure,
                            "cannot allocate " + std::to_string(bytes) + " bytes of shared memory");
    return {};
}

Result<void> release_range(const UniqueFd& file, std::size_t offset, std::size_t bytes) {
    if (fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0)
        return system_error(errno, "cannot give back shared memory");
    return {};
}

Result<void> seal_future_writes(const UniqueFd& file) {
    if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
        return system_error(errno, "cannot seal shared memory against writing");
    return {};
}

Result<void> verify_memory_file(const UniqueFd& file, std::size_t bytes) {
    const int seals = fcntl(file.get(), F_GET_SEALS);
    if (seals < 0)
        return Result<void>(Code::ProtocolViolation, "the peer's shared memory is not a memfd");
    if ((seals & F_SEAL_SHRINK) == 0)
        return Result<void>(Code::ProtocolViolation,
                            "the peer's shared memory is not sealed against shrinking");
    struct stat status {};
    if (fstat(file.get(), &status) != 0) return system_error(errno, "cannot stat shared memory");
    if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) < bytes)
        return Result<void>(Code::ProtocolViolation,
                            "the peer's shared memory has " + std::to_string(status.st_size) +
                                " bytes where " + std::to_string(bytes) + " were promised");
    return {};
}

Result<Mapping> Mapping::map(const UniqueFd& file, std::size_t bytes, Access access,
                             std::size_t offset) {
    const int protection = access == Access::ReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
    void* address =
        mmap(nullptr, bytes, protection, MAP_SHARED, file.get(), static_cast<off_t>(offset));
    if (address == MAP_FAILED)
        return system_error(errno,
                            "cannot map " + std::to_string(bytes) + " bytes of shared memory");
    return Mapping(static_cast<std::byte*>(address), bytes);
}

void Mapping::unmap() noexcept {
    if (address_ != nullptr) munmap(address_, bytes_);
    address_ = nullptr;
    bytes_ = 0;
}

bool is_mapped(const void* address, std::size_t bytes) {
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    std::uintptr_t at = reinterpret_cast<std::uintptr_t>(address) / page * page;
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(address) + bytes;
    std::array<unsigned char, 4096> pages;
    while (at < end) {
        const std::uintptr_t slice = std::min<std::uintptr_t>(end - at, pages.size() * page);
        if (mincore(reinterpret_cast<void*>(at), slice, pages.data()) != 0) return false;
        at += (slice + page - 1) / page * page;
    }
    return true;
}

}  // namespace via::base
