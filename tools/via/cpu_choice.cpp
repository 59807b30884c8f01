// SPDX-License-Identifier: BSD-3-Clause
#include "cpu_choice.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace via::tool {
namespace {

int topology_number(int cpu, std::string_view file, int otherwise) {
    std::ifstream stream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", cpu, file));
    int number = otherwise;
    return stream >> number ? number : otherwise;
}

base::Result<int> parse_cpu(std::string_view text, const std::vector<Processor>& processors) {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size())
        return {
            base::Code::InvalidArgument,
            fmt::format("'{}' is not a processor number; write --cpus 0,1 or --cpus none", text)};
    const bool usable = std::any_of(processors.begin(), processors.end(),
                                    [&](const Processor& one) { return one.number == number; });
    if (usable) return number;
    std::string known;
    for (const Processor& one : processors)
        known += fmt::format(" {}", one.number);
    return {
        base::Code::InvalidArgument,
        fmt::format("processor {} is not usable here; this process may run on:{}", number, known)};
}

}  // namespace

std::vector<Processor> usable_processors() {
    std::vector<Processor> processors;
    // Machines with more processors than a cpu_set_t holds answer EINVAL to a smaller set.
    for (std::size_t most = 1024; most <= 1U << 16; most *= 4) {
        cpu_set_t* set = CPU_ALLOC(most);
        if (set == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(most);
        CPU_ZERO_S(bytes, set);
        const bool known = sched_getaffinity(0, bytes, set) == 0;
        const bool too_small = !known && errno == EINVAL;
        for (std::size_t cpu = 0; known && cpu < most; ++cpu) {
            if (!CPU_ISSET_S(cpu, bytes, set)) continue;
            const int number = static_cast<int>(cpu);
            processors.push_back({number, topology_number(number, "core_id", number),
                                  topology_number(number, "physical_package_id", 0)});
        }
        CPU_FREE(set);
        if (!too_small) break;
    }
    return processors;
}

CpuPair choose_cpus(const std::vector<Processor>& processors) {
    if (processors.empty()) return {};
    const auto find_pair = [&](const auto& fits) -> std::optional<CpuPair> {
        for (std::size_t i = 0; i < processors.size(); ++i)
            for (std::size_t j = i + 1; j < processors.size(); ++j)
                if (fits(processors[i], processors[j]))
                    return CpuPair{processors[i].number, processors[j].number};
        return std::nullopt;
    };
    const auto other_core = [](const Processor& a, const Processor& b) {
        return a.core != b.core || a.package != b.package;
    };
    if (auto pair = find_pair([&](const Processor& a, const Processor& b) {
            return a.package == b.package && other_core(a, b);
        }))
        return *pair;
    if (auto pair = find_pair(other_core)) return *pair;
    if (auto pair = find_pair([](const Processor&, const Processor&) { return true; }))
        return *pair;
    return {processors.front().number, processors.front().number};
}

base::Result<CpuPair> parse_cpus(std::string_view text, const std::vector<Processor>& processors) {
    if (text == "none") return CpuPair{};
    const std::size_t comma = text.find(',');
    const auto first = parse_cpu(text.substr(0, comma), processors);
    if (!first) return first.error();
    if (comma == std::string_view::npos) return CpuPair{first.value(), first.value()};
    const auto second = parse_cpu(text.substr(comma + 1), processors);
    if (!second) return second.error();
    return CpuPair{first.value(), second.value()};
}

base::Result<void> pin_to(std::optional<int> cpu) {
    if (!cpu) return {};
    const auto most = static_cast<std::size_t>(*cpu) + 1;
    cpu_set_t* set = CPU_ALLOC(most);
    if (set == nullptr) return base::system_error(ENOMEM, "pinning to a processor");
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S(static_cast<std::size_t>(*cpu), bytes, set);
    const int result = sched_setaffinity(0, bytes, set);
    const int error = errno;
    CPU_FREE(set);
    if (result != 0) return base::system_error(error, fmt::format("pinning to processor {}", *cpu));
    return {};
}

std::string describe(const CpuPair& cpus) {
    if (!cpus.first || !cpus.second) return "cores of the system's choice";
    if (*cpus.first == *cpus.second) return fmt::format("core {} for both sides", *cpus.first);
    return fmt::format("cores {} and {}", *cpus.first, *cpus.second);
}

}  // namespace via::tool
