// SPDX-License-Identifier: BSD-3-Clause
// Registered memory for Python: anything that knows the buffer protocol sees it without a copy.
//
// There is no way to free it by hand: memoryviews and arrays of others may show it. It is given
// back when nobody has it any more, and what is posted holds it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>
#include <via/via.hpp>

namespace via::python {

class RegisteredMemory {
  public:
    /// Of the kernel agent.
    explicit RegisteredMemory(via::Memory memory) : memory_(std::move(memory)) {}
    /// Of Python: as long as it is registered, the owner can not move it.
    RegisteredMemory(via::Memory memory, pybind11::buffer_info view)
        : view_(std::move(view)), memory_(std::move(memory)) {}

    [[nodiscard]] const via::Memory& memory() const noexcept { return memory_; }
    [[nodiscard]] via::Memory& memory() noexcept { return memory_; }
    [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
    [[nodiscard]] bool shareable() const noexcept { return !view_; }

  private:
    std::optional<pybind11::buffer_info> view_;  ///< goes after the registration
    via::Memory memory_;
};

/// A part of registered memory, which it holds.
struct MemorySegment {
    std::shared_ptr<RegisteredMemory> memory;
    std::size_t offset = 0;
    std::size_t length = 0;

    [[nodiscard]] std::byte* data() const noexcept { return memory->memory().data() + offset; }
    [[nodiscard]] via::Segment segment() const noexcept {
        return memory->memory().segment(offset, length);
    }
    [[nodiscard]] MemorySegment cut(std::size_t bytes) const {
        return {memory, offset, bytes < length ? bytes : length};
    }
};

using SegmentList = std::vector<MemorySegment>;

/// What a program gives as the memory of an operation: a Memory, a Segment, or a list of these.
[[nodiscard]] SegmentList segments_of(const pybind11::handle& given);

void define_memory(pybind11::module_& module);

}  // namespace via::python
