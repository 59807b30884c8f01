// SPDX-License-Identifier: BSD-3-Clause
// Orders under way by name. A name is an index with a generation, so that a peer that names an
// order which is over, or never was, finds nothing. Records are used again; their addresses stay.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mvich/packet.hpp"

namespace via::mvich {

/// A Record has `OrderId id` (0: not in use) and `void clear()`.
template <class Record>
class RecordTable {
  public:
    explicit RecordTable(OrderId kind) : kind_(kind) {}

    [[nodiscard]] Record& make() {
        if (free_.empty()) add_records();
        const std::uint32_t index = free_.back();
        free_.pop_back();
        Record& record = at(index);
        generations_[index] = (generations_[index] + 1) & generation_mask;
        record.id = kind_ | std::uint64_t{generations_[index]} << 32 | index;
        ++used_;
        return record;
    }
    [[nodiscard]] Record* find(OrderId id) noexcept {
        const auto index = static_cast<std::uint32_t>(id);
        if (index >= generations_.size()) return nullptr;
        Record& record = at(index);
        return record.id == id && id != 0 ? &record : nullptr;
    }
    void give_back(Record& record) noexcept {
        const auto index = static_cast<std::uint32_t>(record.id);
        record.clear();
        record.id = 0;
        free_.push_back(index);
        --used_;
    }
    [[nodiscard]] std::size_t used() const noexcept { return used_; }
    /// Calls visit(record) for those in use; visit may give it back.
    template <class Visit>
    void visit_all(Visit visit) {
        for (std::uint32_t i = 0; i < generations_.size(); ++i)
            if (at(i).id != 0) visit(at(i));
    }

  private:
    static constexpr std::uint32_t block_records = 16;
    static constexpr std::uint32_t generation_mask = 0x7FFFFFFF;

    [[nodiscard]] Record& at(std::uint32_t index) noexcept {
        return blocks_[index / block_records][index % block_records];
    }
    void add_records() {
        const auto first = static_cast<std::uint32_t>(generations_.size());
        free_.reserve(first + block_records);
        generations_.reserve(first + block_records);
        blocks_.push_back(std::make_unique<Record[]>(block_records));
        generations_.resize(first + block_records, 0);
        for (std::uint32_t i = block_records; i-- != 0;)
            free_.push_back(first + i);
    }

    const OrderId kind_;
    std::vector<std::unique_ptr<Record[]>> blocks_;
    std::vector<std::uint32_t> generations_;
    std::vector<std::uint32_t> free_;
    std::size_t used_ = 0;
};

}  // namespace via::mvich
