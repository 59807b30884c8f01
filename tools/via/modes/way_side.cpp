// SPDX-License-Identifier: BSD-3-Clause
#include "modes/way_side.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <cstring>

namespace via::tool {
namespace {

std::uint64_t stamp_of(std::uint64_t number) {
    return (number + 1) * 0x9E3779B97F4A7C15U;
}

void fill_stamp(std::byte* data, std::size_t bytes, std::uint64_t number) {
    const std::uint64_t stamp = stamp_of(number);
    std::size_t offset = 0;
    for (; offset + sizeof stamp <= bytes; offset += sizeof stamp)
        std::memcpy(data + offset, &stamp, sizeof stamp);
    std::memcpy(data + offset, &stamp, bytes - offset);
}

/// The first, the middle and the last word.
bool has_stamp(const std::byte* data, std::size_t bytes, std::uint64_t number) {
    const std::uint64_t stamp = stamp_of(number);
    const std::size_t word = sizeof stamp;
    if (bytes < word) return std::memcmp(data, &stamp, bytes) == 0;
    const std::size_t tail = bytes % word;
    for (const std::size_t offset :
         {std::size_t{0}, bytes / 2 / word * word, (bytes - word) / word * word})
        if (std::memcmp(data + offset, &stamp, word) != 0) return false;
    return std::memcmp(data + bytes - tail, &stamp, tail) == 0;
}

}  // namespace

WaySide::WaySide(const Parts& parts)
    : ring_(parts.outgoing, parts.incoming, parts.chunk_bytes, parts.patience),
      kernel_(parts.socket, parts.patience),
      outgoing_(parts.own_shared),
      incoming_(parts.other_shared, parts.other),
      sent_(parts.sent),
      received_(parts.received),
      patience_(parts.patience),
      final_place_(std::make_unique<std::array<std::byte, most_mode_bytes>>()) {}

void WaySide::prepare(const Way& way, std::uint64_t number, std::uint64_t bytes,
                      Contents contents) {
    MessageSlot& slot = outgoing_.slot(way.fetch, number);
    if (contents == Contents::Checked)
        fill_pattern(slot.data.data(), bytes, number);
    else
        fill_stamp(slot.data.data(), bytes, number);
    slot.structure.number = number;
    slot.structure.destination = 1;
    slot.structure.bytes = bytes;
    slot.structure.data = outgoing_.refer_to(way.fetch, slot.data.data());
}

bool WaySide::send(const Way& way, std::uint64_t number) {
    const MessageSlot& slot = outgoing_.slot(way.fetch, number);
    const auto give = [&](auto& carrier) {
        switch (way.sends.given) {
            case sim::Given::ByReference:
                return carrier.send_word(outgoing_.refer_to(way.fetch, &slot.structure));
            case sim::Given::Structure:
                return carrier.send_structure(slot.structure);
            case sim::Given::StructureAndData:
                return carrier.send_all(slot.structure, slot.data.data());
        }
        return false;
    };
    const bool sent = way.sends.by_system_call ? give(kernel_) : give(ring_);
    return sent || fail(way, number, "could not be sent");
}

bool WaySide::wait_for_end(std::uint64_t number) {
    const bool ended = patience_.wait([&] {
        const auto reached = [&](std::uint64_t seen) { return seen >= number; };
        return reached(base::load_then_order(sent_.number, reached));
    });
    if (!ended) problem_ = fmt::format("the end of message {} was never signalled", number);
    return ended;
}

bool WaySide::receive(const Way& way, std::uint64_t number, std::uint64_t bytes, bool signal_end) {
    Instruction structure;
    const auto take = [&](auto& carrier) {
        switch (way.sends.given) {
            case sim::Given::ByReference: {
                Reference word = 0;
                return carrier.receive_word(word) &&
                       incoming_.fetch(way.fetch, word, &structure, sizeof structure);
            }
            case sim::Given::Structure:
                return carrier.receive_structure(structure);
            case sim::Given::StructureAndData:
                return carrier.receive_all(structure, *final_place_);
        }
        return false;
    };
    errno = 0;
    if (!(way.sends.by_system_call ? take(kernel_) : take(ring_)))
        return fail(way, number, "did not come");
    if (structure.number != number || structure.bytes != bytes)
        return fail(way, number, "came with another's structure");
    if (!way.copies_data() &&
        !incoming_.fetch(way.fetch, structure.data, final_place_->data(), bytes))
        return fail(way, number, "could not be fetched");
    if (signal_end) received_.number.store(number, std::memory_order_release);
    return true;
}

bool WaySide::verify(std::uint64_t number, std::uint64_t bytes, Contents contents) {
    const std::byte* data = final_place_->data();
    if (contents == Contents::Fresh) {
        if (has_stamp(data, bytes, number)) return true;
        problem_ = fmt::format("message {} of {} bytes arrived with wrong contents", number, bytes);
        return false;
    }
    const auto wrong = find_wrong_byte(data, bytes, number);
    if (wrong)
        problem_ = fmt::format("message {} of {} bytes arrived with a wrong byte at {}", number,
                               bytes, *wrong);
    return !wrong;
}

bool WaySide::fail(const Way& way, std::uint64_t number, const char* what) {
    const int error = errno;
    problem_ = fmt::format("{}: message {} {}", describe(way), number, what);
    if (error != 0 && error != EAGAIN) problem_ += fmt::format(": {}", strerror(error));
    return false;
}

}  // namespace via::tool
