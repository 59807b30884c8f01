// SPDX-License-Identifier: BSD-3-Clause
#include "sim/core/frame_pool.hpp"

#include <array>
#include <new>

namespace via::sim {

#ifdef __SANITIZE_ADDRESS__

// Frames that live on in a list would hide from the sanitizer that they are used after their end.
void* PooledFrame::operator new(std::size_t size) {
    return ::operator new(size);
}
void PooledFrame::operator delete(void* frame, std::size_t) noexcept {
    ::operator delete(frame);
}

#else

namespace {

struct FreeFrame {
    FreeFrame* next;
};

constexpr std::size_t granule = 64;
constexpr std::size_t longest = 4096;  // longer frames are rare and come from the heap

struct FreeLists {
    std::array<FreeFrame*, longest / granule + 1> first{};
    bool closed = false;
};

// Every frame is an allocation of its own, so it may end on another thread than it began on. No
// destructor: objects that outlive the thread's others may still drop frames.
constinit thread_local FreeLists lists;

struct AtThreadEnd {
    ~AtThreadEnd() {
        for (std::size_t units = 0; units < lists.first.size(); ++units) {
            while (FreeFrame* frame = lists.first[units]) {
                lists.first[units] = frame->next;
                ::operator delete(frame);
            }
        }
        lists.closed = true;
    }
};

FreeLists& own_lists() noexcept {
    thread_local const AtThreadEnd at_thread_end;
    return lists;
}

std::size_t granules(std::size_t size) noexcept {
    return (size + granule - 1) / granule;
}

}  // namespace

void* PooledFrame::operator new(std::size_t size) {
    if (size > longest) return ::operator new(size);
    const std::size_t units = granules(size);
    FreeFrame*& first = own_lists().first[units];
    if (first == nullptr) return ::operator new(units* granule);
    FreeFrame* const frame = first;
    first = frame->next;
    return frame;
}

void PooledFrame::operator delete(void* frame, std::size_t size) noexcept {
    if (size > longest) return ::operator delete(frame);
    const std::size_t units = granules(size);
    FreeLists& own = own_lists();
    if (own.closed) return ::operator delete(frame);
    own.first[units] = new (frame) FreeFrame{own.first[units]};
}

#endif

}  // namespace via::sim
