// SPDX-License-Identifier: BSD-3-Clause
// Another process writes the counters page that `via stat` reads. Whatever it holds, what is read
// is bounded and can be shown on a terminal.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/memory_file.hpp"
#include "counters_snapshot.hpp"
#include "text_table.hpp"

using namespace via;

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using base::CountersPage;
    static const auto file =
        base::create_memory_file("fuzz", sizeof(CountersPage), base::Backing::Sparse);
    require(file.ok());
    static const auto mapping =
        base::Mapping::map(file.value(), sizeof(CountersPage), base::Access::ReadWrite);
    require(mapping.ok());
    // The head is given; the rest repeats, so that short inputs reach all slots.
    static std::size_t dirty = 0;
    std::byte* page = mapping.value().data();
    std::memset(page, 0, dirty);
    const std::size_t head = sizeof(std::uint32_t) * 2;
    dirty = std::min(sizeof(CountersPage), head + size * 64);
    for (std::size_t at = head; size > 0 && at < dirty; at += size)
        std::memcpy(page + at, data, std::min(size, dirty - at));
    auto& counters = *reinterpret_cast<CountersPage*>(page);
    counters.magic.store(CountersPage::format_magic);
    counters.version.store(CountersPage::format_version);

    const auto snapshot = tool::read_counters(file.value());
    require(snapshot.ok());
    require(snapshot.value().vis.size() < CountersPage::vi_slots);
    require(snapshot.value().errors.size() <= CountersPage::error_slots);
    require(tool::printable(snapshot.value().program) == snapshot.value().program);
    for (const tool::ViSnapshot& vi : snapshot.value().vis) {
        require(tool::printable(vi.device) == vi.device);
        require(!tool::vi_state_name(vi.state).empty());
        (void)tool::rates_between(snapshot.value().totals, vi, 1'000'000'000);
    }
    for (const tool::ErrorSnapshot& error : snapshot.value().errors)
        require(tool::printable(error.text) == error.text && error.text.size() < 4 * 232);
    return 0;
}
