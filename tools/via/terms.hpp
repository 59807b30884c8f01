// SPDX-License-Identifier: BSD-3-Clause
// What the two sides of a measurement agree on. The client says it, the server adopts it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace via::tool {

enum class Program { Pingpong, Window };
enum class Operation { Send, RdmaWrite, RdmaRead };
enum class MemoryKind { Heap, Kmem };
enum class WaitKind { Poll, Block };
enum class Reliability { Unreliable, Delivery, Reception };

[[nodiscard]] std::string_view to_text(Program program);
[[nodiscard]] std::string_view to_text(Operation operation);
[[nodiscard]] std::string_view to_text(MemoryKind memory);
[[nodiscard]] std::string_view to_text(WaitKind wait);
[[nodiscard]] std::string_view to_text(Reliability reliability);

/// For all tests of a session.
struct SessionTerms {
    Reliability reliability = Reliability::Delivery;
    WaitKind wait = WaitKind::Poll;
    Operation operation = Operation::Send;
    bool completion_queue = false;  ///< receives complete through a completion queue
    bool check = false;             ///< verify every byte
    bool fresh = false;             ///< each message is written anew before it is sent
    std::uint32_t idle_vis = 0;     ///< further connected VIs on the same completion queue
};

/// For one size.
struct TestTerms {
    Program program = Program::Pingpong;
    MemoryKind memory = MemoryKind::Kmem;
    std::uint64_t bytes = 8;
    std::uint32_t window = 1;   ///< receives posted ahead; operations under way
    std::uint32_t buffers = 1;  ///< on each side, used in turn
};

inline constexpr std::uint32_t most_idle_vis = 16384;
inline constexpr std::uint32_t most_window = 65536;
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 32;  ///< a descriptor's Length

[[nodiscard]] nlohmann::json to_json(const SessionTerms& terms);
[[nodiscard]] nlohmann::json to_json(const TestTerms& terms);
/// From another process: everything is checked.
[[nodiscard]] base::Result<SessionTerms> session_terms_from(const nlohmann::json& value);
[[nodiscard]] base::Result<TestTerms> test_terms_from(const nlohmann::json& value);

/// As many as fill 4 MB, from 4 to 128.
[[nodiscard]] std::uint32_t default_window(std::uint64_t bytes);
/// As many as fill 256 KB, at least one and no more than the window: small messages go round many
/// buffers, large ones stay in one as in other stacks' stream tests.
[[nodiscard]] std::uint32_t default_buffers(std::uint64_t bytes, std::uint32_t window);

/// Where buffer `index` begins: on a cache line, large ones on a page.
[[nodiscard]] std::uint64_t buffer_stride(std::uint64_t bytes);

}  // namespace via::tool
