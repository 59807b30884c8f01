// SPDX-License-Identifier: BSD-3-Clause
#include "terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace via::tool {
namespace {

template <class Kind, std::size_t Count>
using Names = std::array<std::pair<Kind, std::string_view>, Count>;

constexpr Names<Program, 2> programs{
    {{Program::Pingpong, "pingpong"}, {Program::Window, "window"}}};
constexpr Names<Operation, 3> operations{{{Operation::Send, "send"},
                                          {Operation::RdmaWrite, "rdma-write"},
                                          {Operation::RdmaRead, "rdma-read"}}};
constexpr Names<MemoryKind, 2> memories{{{MemoryKind::Heap, "heap"}, {MemoryKind::Kmem, "kmem"}}};
constexpr Names<WaitKind, 2> waits{{{WaitKind::Poll, "poll"}, {WaitKind::Block, "block"}}};
constexpr Names<Reliability, 3> reliabilities{{{Reliability::Unreliable, "unreliable"},
                                               {Reliability::Delivery, "delivery"},
                                               {Reliability::Reception, "reception"}}};

template <class Kind, std::size_t Count>
std::string_view name_of(const Names<Kind, Count>& names, Kind kind) {
    for (const auto& [value, name] : names)
        if (value == kind) return name;
    return "?";
}

/// Reads members one after the other and remembers the first that is missing or wrong.
class Reader {
  public:
    explicit Reader(const nlohmann::json& value) : value_(value) {}

    template <class Kind, std::size_t Count>
    Kind choice(const char* member, const Names<Kind, Count>& names) {
        const nlohmann::json* found = find(member);
        if (found != nullptr && found->is_string())
            for (const auto& [kind, name] : names)
                if (found->get_ref<const std::string&>() == name) return kind;
        complain(member);
        return names[0].first;
    }
    std::uint64_t number(const char* member, std::uint64_t least, std::uint64_t most) {
        const nlohmann::json* found = find(member);
        if (found != nullptr && found->is_number_unsigned()) {
            const auto number = found->get<std::uint64_t>();
            if (number >= least && number <= most) return number;
        }
        complain(member);
        return least;
    }
    bool flag(const char* member) {
        const nlohmann::json* found = find(member);
        if (found != nullptr && found->is_boolean()) return found->get<bool>();
        complain(member);
        return false;
    }
    [[nodiscard]] std::optional<base::Error> problem() const { return problem_; }

  private:
    const nlohmann::json* find(const char* member) const {
        if (!value_.is_object()) return nullptr;
        const auto found = value_.find(member);
        return found == value_.end() ? nullptr : &*found;
    }
    void complain(const char* member) {
        if (!problem_)
            problem_ = base::Error{
                base::Code::ProtocolViolation,
                fmt::format("the other side's terms have no usable \"{}\"; both sides must be the "
                            "same version of this program",
                            member)};
    }
    const nlohmann::json& value_;
    std::optional<base::Error> problem_;
};

}  // namespace

std::string_view to_text(Program program) {
    return name_of(programs, program);
}
std::string_view to_text(Operation operation) {
    return name_of(operations, operation);
}
std::string_view to_text(MemoryKind memory) {
    return name_of(memories, memory);
}
std::string_view to_text(WaitKind wait) {
    return name_of(waits, wait);
}
std::string_view to_text(Reliability reliability) {
    return name_of(reliabilities, reliability);
}

nlohmann::json to_json(const SessionTerms& terms) {
    return {{"reliability", to_text(terms.reliability)},
            {"wait", to_text(terms.wait)},
            {"operation", to_text(terms.operation)},
            {"completion_queue", terms.completion_queue},
            {"check", terms.check},
            {"fresh", terms.fresh},
            {"idle_vis", terms.idle_vis}};
}

nlohmann::json to_json(const TestTerms& terms) {
    return {{"program", to_text(terms.program)},
            {"memory", to_text(terms.memory)},
            {"bytes", terms.bytes},
            {"window", terms.window},
            {"buffers", terms.buffers}};
}

base::Result<SessionTerms> session_terms_from(const nlohmann::json& value) {
    Reader reader(value);
    SessionTerms terms;
    terms.reliability = reader.choice("reliability", reliabilities);
    terms.wait = reader.choice("wait", waits);
    terms.operation = reader.choice("operation", operations);
    terms.completion_queue = reader.flag("completion_queue");
    terms.check = reader.flag("check");
    terms.fresh = reader.flag("fresh");
    terms.idle_vis = static_cast<std::uint32_t>(reader.number("idle_vis", 0, most_idle_vis));
    if (const auto problem = reader.problem()) return *problem;
    return terms;
}

base::Result<TestTerms> test_terms_from(const nlohmann::json& value) {
    Reader reader(value);
    TestTerms terms;
    terms.program = reader.choice("program", programs);
    terms.memory = reader.choice("memory", memories);
    terms.bytes = reader.number("bytes", 0, most_bytes);
    terms.window = static_cast<std::uint32_t>(reader.number("window", 1, most_window));
    terms.buffers = static_cast<std::uint32_t>(reader.number("buffers", 1, most_window));
    if (const auto problem = reader.problem()) return *problem;
    return terms;
}

std::uint32_t default_window(std::uint64_t bytes) {
    constexpr std::uint64_t fill = std::uint64_t{4} << 20;
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(fill / std::max<std::uint64_t>(bytes, 1), 4, 128));
}

std::uint32_t default_buffers(std::uint64_t bytes, std::uint32_t window) {
    constexpr std::uint64_t fill = std::uint64_t{256} << 10;
    return static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(fill / std::max<std::uint64_t>(bytes, 1), 1, window));
}

std::uint64_t buffer_stride(std::uint64_t bytes) {
    const std::uint64_t alignment = bytes >= 4096 ? 4096 : 64;
    return std::max<std::uint64_t>((bytes + alignment - 1) / alignment, 1) * alignment;
}

}  // namespace via::tool
