// SPDX-License-Identifier: BSD-3-Clause
#include "system/short_heap.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

namespace via::test {

std::atomic<pid_t> starved_thread{0};
std::atomic<std::uint32_t> refusals{0};

namespace {

thread_local Shortage current = Shortage::None;
thread_local std::uint32_t left = 0;
thread_local bool met = false;

bool refuse() noexcept {
    if (const pid_t thread = starved_thread.load(std::memory_order_relaxed);
        thread != 0 && static_cast<pid_t>(syscall(SYS_gettid)) == thread) {
        refusals.fetch_add(1);
        return true;
    }
    if (current == Shortage::None) return false;
    if (left != 0) {
        --left;
        return false;
    }
    met = true;
    if (current == Shortage::Once) current = Shortage::None;
    return true;
}

void* allocate(std::size_t bytes, std::size_t alignment = 0) noexcept {
    if (refuse()) return nullptr;
    if (alignment == 0) return std::malloc(bytes != 0 ? bytes : 1);
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment = 0) {
    void* memory = allocate(bytes, alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}

}  // namespace

void run_short(Shortage shortage, std::uint32_t allocations) noexcept {
    left = allocations;
    met = false;
    current = shortage;
}

bool end_shortage() noexcept {
    current = Shortage::None;
    return met;
}

}  // namespace via::test

using via::test::allocate;
using via::test::allocate_or_throw;

void* operator new(std::size_t bytes) {
    return allocate_or_throw(bytes);
}
void* operator new[](std::size_t bytes) {
    return allocate_or_throw(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
    return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return allocate(bytes);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
