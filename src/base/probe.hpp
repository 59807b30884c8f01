// SPDX-License-Identifier: BSD-3-Clause
// Static probes (USDT) of the provider "viaduct", for bpftrace, perf and SystemTap:
// docs/tracing.md.
//
// A probe is one nop and a note in the file that says where it is and where its arguments are. It
// may cost nothing else: what is passed is in a register already, is a constant, or stays in
// memory, where only a tracer reads it. The macros of <sys/sdt.h> leave the compiler that choice,
// and clang loads and spills then, even through a pointer that is not checked yet. So the notes are
// written here, in the format that those macros write (stapsdt, version 3).
#pragma once

#include <cstdint>

#if !defined(VIA_NO_PROBES) && (defined(__x86_64__) || defined(__aarch64__))
// A note holds the addresses of the nop and of a mark that tells how far the file was moved, no
// semaphore, and three texts. Without the word "inline" a compiler would count the lines, and think
// twice about inlining what contains them.
#define VIA_PROBE(name, arguments, ...)                                           \
    asm inline volatile(                                                          \
        "990:\tnop\n"                                                             \
        "\t.pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
        "\t.balign 4\n"                                                           \
        "\t.4byte 992f-991f,994f-993f,3\n"                                        \
        "991:\t.asciz \"stapsdt\"\n"                                              \
        "992:\t.balign 4\n"                                                       \
        "993:\t.8byte 990b,_.stapsdt.base,0\n"                                    \
        "\t.asciz \"viaduct\"\n"                                                  \
        "\t.asciz \"" name                                                        \
        "\"\n"                                                                    \
        "\t.asciz \"" arguments                                                   \
        "\"\n"                                                                    \
        "994:\t.balign 4\n"                                                       \
        "\t.popsection\n"                                                         \
        "\t.ifndef _.stapsdt.base\n"                                              \
        "\t.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
        "\t.weak _.stapsdt.base\n"                                                \
        "\t.hidden _.stapsdt.base\n"                                              \
        "_.stapsdt.base:\t.space 1\n"                                             \
        "\t.size _.stapsdt.base,1\n"                                              \
        "\t.popsection\n"                                                         \
        "\t.endif\n"                                                              \
        :                                                                         \
        : __VA_ARGS__)
#else
#define VIA_PROBE(name, arguments, ...) static_cast<void>(0)
#endif

// What is called a place below is an lvalue of 8 or 4 bytes that is not read. These are macros for
// its sake: of a reference to it the compiler would keep the address in a register.

/// A program posts a descriptor (VipPostSend: queue 0, VipPostRecv: queue 1).
#define VIA_PROBE_POST(vi_number, descriptor_address, queue_number)                                \
    VIA_PROBE("post", "8@%[vi] 8@%[descriptor] 4@%[bytes] 4@%[queue]", [vi] "nr"(vi_number),       \
              [descriptor] "nr"(descriptor_address), [bytes] "m"((descriptor_address)->CS.Length), \
              [queue] "nr"(std::uint32_t{queue_number}))

/// Somebody is told that there is work. Whom: 0, the NIC agent of this process, of chains in a send
/// queue (the place has the VI's number); else as na::Wakes says, a peer that sleeps (the stream).
#define VIA_PROBE_DOORBELL(number_place, whom_number)                          \
    VIA_PROBE("doorbell", "8@%[number] 4@%[whom]", [number] "m"(number_place), \
              [whom] "nr"(std::uint32_t{whom_number}))

// A stream is one direction of a connection. Its number is the same at both ends, and so is what
// numbers a message in it: the sequence and, where several have one sequence, the last six bits of
// the part. `way` is a base::DataPath.

/// A device is about to let a message go; it has a message of the peer. All but the last two are
/// places.
#define VIA_PROBE_SEND(stream_place, sequence_place, part_place, bytes_number, way_number)      \
    VIA_PROBE_MESSAGE("send", stream_place, sequence_place, "8", "m", part_place, bytes_number, \
                      way_number)
#define VIA_PROBE_RECEIVE(stream_place, sequence_place, part_place, bytes_number, way_number)      \
    VIA_PROBE_MESSAGE("receive", stream_place, sequence_place, "8", "m", part_place, bytes_number, \
                      way_number)
/// The same where the sequence alone numbers messages.
#define VIA_PROBE_SEND_WHOLE(stream_place, sequence_place, bytes_number, way_number) \
    VIA_PROBE_MESSAGE("send", stream_place, sequence_place, "4", "nr", 0, bytes_number, way_number)
#define VIA_PROBE_RECEIVE_WHOLE(stream_place, sequence_place, bytes_number, way_number)    \
    VIA_PROBE_MESSAGE("receive", stream_place, sequence_place, "4", "nr", 0, bytes_number, \
                      way_number)
#define VIA_PROBE_MESSAGE(name, stream_place, sequence_place, part_bytes, part_where, part_value, \
                          bytes_number, way_number)                                               \
    VIA_PROBE(name, "8@%[stream] 8@%[sequence] " part_bytes "@%[which] 4@%[bytes] 4@%[way]",      \
              [stream] "m"(stream_place), [sequence] "m"(sequence_place),                         \
              [which] part_where(part_value), [bytes] "nr"(std::uint32_t{bytes_number}),          \
              [way] "nr"(static_cast<std::uint32_t>(way_number)))

/// The program can see that a descriptor is done.
#define VIA_PROBE_COMPLETE(vi_place, descriptor_address)                                           \
    VIA_PROBE("complete", "8@%[vi] 8@%[descriptor] 4@%[bytes] 4@%[status]", [vi] "m"(vi_place),    \
              [descriptor] "nr"(descriptor_address), [bytes] "m"((descriptor_address)->CS.Length), \
              [status] "m"((descriptor_address)->CS.Status))
