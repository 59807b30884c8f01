// SPDX-License-Identifier: BSD-3-Clause
// Static probes (USDT) of the provider "viaduct", for bpftrace, perf and SystemTap: docs/tracing.md.
//
// A probe is one nop and a note in the file that says where it is and where its arguments are. It
// may cost nothing else: what is passed is in a register already, is a constant, or stays in memory,
// where only a tracer reads it. The macros of <sys/sdt.h> leave the compiler that choice, and clang
// loads and spills then, even through a pointer that is not checked yet. So the notes are written
// here, in the format that those macros write (stapsdt, version 3).
#pragma once

#include <atomic>
#include <cstdint>

#if !defined(VIA_NO_PROBES) && (defined(__x86_64__) || defined(__aarch64__))
// A note holds the addresses of the nop and of a mark that tells how far the file was moved, no
// semaphore, and three texts. Without the word "inline" a compiler would count the lines, and think
// twice about inlining what contains them.
#define VIA_PROBE(name, arguments, ...)                                                       \
    asm inline volatile("990:\tnop\n"                                                         \
                        "\t.pushsection .note.stapsdt,\"?\",\"note\"\n"                       \
                        "\t.balign 4\n"                                                       \
                        "\t.4byte 992f-991f,994f-993f,3\n"                                    \
                        "991:\t.asciz \"stapsdt\"\n"                                          \
                        "992:\t.balign 4\n"                                                   \
                        "993:\t.8byte 990b,_.stapsdt.base,0\n"                                \
                        "\t.asciz \"viaduct\"\n"                                              \
                        "\t.asciz \"" name "\"\n"                                             \
                        "\t.asciz \"" arguments "\"\n"                                        \
                        "994:\t.balign 4\n"                                                   \
                        "\t.popsection\n"                                                     \
                        "\t.ifndef _.stapsdt.base\n"                                          \
                        "\t.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
                        "\t.weak _.stapsdt.base\n"                                            \
                        "\t.hidden _.stapsdt.base\n"                                          \
                        "_.stapsdt.base:\t.space 1\n"                                         \
                        "\t.size _.stapsdt.base,1\n"                                          \
                        "\t.popsection\n"                                                     \
                        "\t.endif\n"                                                          \
                        :                                                                     \
                        : __VA_ARGS__)
#else
#define VIA_PROBE(name, arguments, ...) static_cast<void>(0)
#endif

namespace via::base {

/// Which queue a descriptor is posted to.
enum class ProbedQueue : std::uint32_t { Send = 0, Receive = 1 };

/// Whom a doorbell calls: the NIC agent of this process, or as na::Wakes says at the peer.
inline constexpr std::uint32_t probed_nic_agent = 0;

// A parameter that is a reference is not read, nor is what a pointer points to: only the place is
// told.

/// A program posts a descriptor (VipPostSend, VipPostRecv). The tracer sees the length in it.
template <class Descriptor>
[[gnu::always_inline]] inline void probe_post([[maybe_unused]] std::uint64_t vi,
                                              [[maybe_unused]] const Descriptor* descriptor,
                                              [[maybe_unused]] ProbedQueue queue) noexcept {
    VIA_PROBE("post", "8@%[vi] 8@%[descriptor] 4@%[bytes] 4@%[queue]", [vi] "nr"(vi),
              [descriptor] "nr"(descriptor), [bytes] "m"(descriptor->CS.Length),
              [queue] "nr"(queue));
}

/// Somebody is told that there is work: the NIC agent of this process of chains in the send queue
/// (`number`: the VI), or a peer that sleeps of what was sent to it (the stream).
template <class Number>
[[gnu::always_inline]] inline void probe_doorbell([[maybe_unused]] const Number& number,
                                                  [[maybe_unused]] std::uint32_t whom) noexcept {
    static_assert(sizeof number == 8);
    VIA_PROBE("doorbell", "8@%[number] 4@%[whom]", [number] "m"(number), [whom] "nr"(whom));
}

// A stream is one direction of a connection. Its number is the same at both ends, and so is what
// numbers a message in it: the sequence and, where several have one sequence, the last six bits of
// the place. `way` is a DataPath.

/// A device is about to let a message go.
template <class Place, class Way>
[[gnu::always_inline]] inline void probe_send([[maybe_unused]] const std::uint64_t& stream,
                                              [[maybe_unused]] const std::uint64_t& sequence,
                                              [[maybe_unused]] const Place& place,
                                              [[maybe_unused]] std::uint32_t bytes,
                                              [[maybe_unused]] Way way) noexcept {
    static_assert(sizeof place == 8);
    VIA_PROBE("send", "8@%[stream] 8@%[sequence] 8@%[place] 4@%[bytes] 4@%[way]",
              [stream] "m"(stream), [sequence] "m"(sequence), [place] "m"(place),
              [bytes] "nr"(bytes), [way] "nr"(static_cast<std::uint32_t>(way)));
}
template <class Way>
[[gnu::always_inline]] inline void probe_send([[maybe_unused]] const std::uint64_t& stream,
                                              [[maybe_unused]] const std::uint64_t& sequence,
                                              [[maybe_unused]] std::uint32_t bytes,
                                              [[maybe_unused]] Way way) noexcept {
    VIA_PROBE("send", "8@%[stream] 8@%[sequence] 4@%[place] 4@%[bytes] 4@%[way]",
              [stream] "m"(stream), [sequence] "m"(sequence), [place] "nr"(0), [bytes] "nr"(bytes),
              [way] "nr"(static_cast<std::uint32_t>(way)));
}

/// A device has a message of the peer.
template <class Place, class Way>
[[gnu::always_inline]] inline void probe_receive([[maybe_unused]] const std::uint64_t& stream,
                                                 [[maybe_unused]] const std::uint64_t& sequence,
                                                 [[maybe_unused]] const Place& place,
                                                 [[maybe_unused]] std::uint32_t bytes,
                                                 [[maybe_unused]] Way way) noexcept {
    static_assert(sizeof place == 8);
    VIA_PROBE("receive", "8@%[stream] 8@%[sequence] 8@%[place] 4@%[bytes] 4@%[way]",
              [stream] "m"(stream), [sequence] "m"(sequence), [place] "m"(place),
              [bytes] "nr"(bytes), [way] "nr"(static_cast<std::uint32_t>(way)));
}
template <class Way>
[[gnu::always_inline]] inline void probe_receive([[maybe_unused]] const std::uint64_t& stream,
                                                 [[maybe_unused]] const std::uint64_t& sequence,
                                                 [[maybe_unused]] std::uint32_t bytes,
                                                 [[maybe_unused]] Way way) noexcept {
    VIA_PROBE("receive", "8@%[stream] 8@%[sequence] 4@%[place] 4@%[bytes] 4@%[way]",
              [stream] "m"(stream), [sequence] "m"(sequence), [place] "nr"(0), [bytes] "nr"(bytes),
              [way] "nr"(static_cast<std::uint32_t>(way)));
}

/// The program can see that a descriptor is done; the tracer, its length and status.
template <class Descriptor>
[[gnu::always_inline]] inline void probe_complete(
    [[maybe_unused]] const std::atomic<std::uint64_t>& vi,
    [[maybe_unused]] const Descriptor* descriptor) noexcept {
    VIA_PROBE("complete", "8@%[vi] 8@%[descriptor] 4@%[bytes] 4@%[status]", [vi] "m"(vi),
              [descriptor] "nr"(descriptor), [bytes] "m"(descriptor->CS.Length),
              [status] "m"(descriptor->CS.Status));
}

}  // namespace via::base

#undef VIA_PROBE
