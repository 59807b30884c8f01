// SPDX-License-Identifier: BSD-3-Clause
// The one table of all settings.
#include "base/settings.hpp"

namespace via::base {
namespace {

constexpr std::uint64_t kilo = 1024;
constexpr std::uint64_t mega = 1024 * kilo;
constexpr std::uint64_t giga = 1024 * mega;

SettingDeclaration flag(std::string_view name, std::string_view default_value,
                        std::string_view meaning) {
    return {name, SettingKind::Flag, default_value, 0, 1, {}, meaning};
}

SettingDeclaration text(std::string_view name, std::string_view default_value,
                        std::string_view meaning) {
    return {name, SettingKind::Text, default_value, 0, 0, {}, meaning};
}

SettingDeclaration choice(std::string_view name, std::string_view choices,
                          std::string_view default_value, std::string_view meaning) {
    return {name, SettingKind::Choice, default_value, 0, 0, choices, meaning};
}

SettingDeclaration number(std::string_view name, std::string_view default_value,
                          std::uint64_t minimum, std::uint64_t maximum, std::string_view meaning) {
    return {name, SettingKind::Number, default_value, minimum, maximum, {}, meaning};
}

SettingDeclaration bytes(std::string_view name, std::string_view default_value,
                         std::uint64_t minimum, std::uint64_t maximum, std::string_view meaning) {
    return {name, SettingKind::Bytes, default_value, minimum, maximum, {}, meaning};
}

SettingDeclaration secret(SettingDeclaration declaration) {
    declaration.secret = true;
    return declaration;
}

SettingDeclaration power_of_two(SettingDeclaration declaration) {
    declaration.power_of_two = true;
    return declaration;
}

}  // namespace

const std::vector<SettingDeclaration>& setting_declarations() {
    // Never destroyed: threads may still ask while the process exits.
    static const auto& table = *new std::vector<SettingDeclaration>{
        choice("VIA_LOG", "silent|error|warning|info|debug", "warning",
               "Which lines Viaduct writes to standard error: this level and all that are graver."),
        text("VIA_CONFIG", "",
             "The settings file with lines NAME=value; if empty, the first that exists of "
             "$XDG_CONFIG_HOME/viaduct/viaduct.conf (or ~/.config/viaduct/viaduct.conf) and "
             "/etc/viaduct.conf is read."),
        text("VIA_AGENT_SOCKET", "",
             "The socket of the kernel agent, a path or @name; if empty, the system's agent "
             "@viaduct/system when it answers, else the user's @viaduct/user/<uid>."),
        text("VIA_AGENT_PROGRAM", "",
             "The path of the program viad; if empty, it is looked for next to the running "
             "program, in the installed place and in PATH."),
        flag("VIA_AGENT_START", "1",
             "Whether a process that finds no kernel agent starts one by itself."),
        number("VIA_AGENT_IDLE_SECONDS", "10", 1, 86400,
               "How many seconds a kernel agent that was started on demand stays without clients."),
        number("VIA_AGENT_TIMEOUT_MS", "5000", 10, 600000,
               "How many milliseconds a process waits for an answer of the kernel agent."),
        choice("VIA_SHM_PATH", "auto|kmem|cma|ring", "auto",
               "Forces the way by which large messages move inside a host; auto takes the fastest "
               "that works."),
        flag("VIA_SHM_INLINE", "1",
             "Whether messages that fit into a frame of one cache line travel inside it."),
        power_of_two(bytes("VIA_SHM_RING_BYTES", "512k", 4 * kilo, 4 * mega,
                           "To what size a channel's byte ring may grow, one for each direction of "
                           "a connection inside a host. It begins with 8k and takes more as "
                           "traffic passes.")),
        power_of_two(number("VIA_SHM_FRAME_LINES", "32", 8, 4096,
                            "How many frames of one cache line a channel inside a host holds.")),
        bytes("VIA_SHM_CHUNK_BYTES", "16k", 256, 32 * kilo,
              "In what portions a message goes through the byte ring, so that the copies of "
              "sender and receiver overlap."),
        bytes(
            "VIA_SHM_KMEM_BYTES", "2k", 64, 1 * giga,
            "From this size on a message in kmem memory moves inside a host with one copy, out of "
            "the peer's mapping, instead of through the byte ring."),
        bytes("VIA_SHM_SINGLE_COPY_BYTES", "256k", 64, 1 * giga,
              "From this size on any message moves inside a host with one copy (kmem or CMA), if "
              "that is possible, instead of through the byte ring."),
        number("VIA_NET_PORT", "0", 0, 65535,
               "The UDP port of the kernel agent, at which other hosts ask for connections; 0 is "
               "7471 for root's agent and 7472 + uid % 1000 for another user's."),
        choice("VIA_NET_POLICY", "adaptive|dynamic|oneway|static", "adaptive",
               "Which link between two hosts takes the next piece of a long message: the one on "
               "which it arrives first, free ones in turn, one half of them, or always the same."),
        choice("VIA_NET_RAW", "off|auto|ring|xdp", "off",
               "Whether short messages between hosts of one Ethernet go below IP, with half of the "
               "latency: by a packet ring or AF_XDP. It needs CAP_NET_RAW and both ends; auto "
               "takes what it may have, and none if it may not."),
        flag("VIA_NET_SECURE", "0",
             "Whether every packet between hosts is encrypted and authenticated; it is if either "
             "end of a connection wants it."),
        number("VIA_NET_LOST_MS", "2000", 100, 600000,
               "After how many milliseconds of silence a connection to another host is lost."),
        number("VIA_NET_CORK_US", "4", 0, 1000,
               "For how many microseconds after a send, and while that is unanswered, further ones "
               "are "
               "gathered into a train; 0: each goes at once."),
        flag("VIA_NET_TRAINS", "1",
             "Whether packets between hosts leave many to a system call (UDP_SEGMENT); otherwise "
             "each has its own. Only to see what that is worth."),
        flag("VIA_NET_LEND", "1",
             "Whether long messages between hosts may be sent as they lie in the program's memory, "
             "while the peer keeps up; otherwise the kernel copies all that is sent."),
        text("VIA_NET_INTERFACES", "",
             "The interfaces that connections between hosts use: names or patterns with commas "
             "between them, as in eth*,ib0, and !name for one that is not used; if empty, all but "
             "bridges to containers of this host."),
        text("VIA_NET_PORTS", "",
             "The UDP ports of connections between hosts, as in 40000-40999, for firewalls; if "
             "empty, the kernel chooses."),
        text("VIA_NET_KEY_FILE", "",
             "A file with the key that the hosts of the cluster share, read by the kernel agent; "
             "it must belong to the agent's user and have mode 0600. If empty, VIA_NET_KEY holds."),
        secret(text("VIA_NET_KEY", "",
                    "The key that the hosts of the cluster share: 64 hexadecimal digits or any "
                    "text; if empty, the cluster is open to every host that can reach it.")),
        number("VIA_SPIN_US", "50", 0, 1000000,
               "How many microseconds a blocking wait polls before it sleeps."),
        text("VIA_MPI_DEVICE", "auto",
             "On what device messages of MPI and libfabric programs travel: auto, shm0 or net0."),
        choice("VIA_MPI_PROTOCOL", "auto|eager|r3|rget|rput", "auto",
               "Forces the protocol of messages; auto chooses by size, device and credits. Where "
               "the forced one can not be used, such as eager for a message that is longer than a "
               "vbuf, it is r3."),
        bytes("VIA_MPI_VBUF_BYTES", "8k", 1 * kilo, 64 * kilo,
              "How long the buffers (vbufs) are in which packets travel between hosts, and in "
              "which messages wait that nobody has asked for."),
        bytes("VIA_MPI_EAGER_BYTES", "4k", 0, 60 * kilo,
              "Up to this size a message is sent at once instead of being announced; at most what "
              "fits into a vbuf."),
        bytes(
            "VIA_MPI_RDMA_BYTES", "256k", 0, 1 * giga,
            "From this size on a message between hosts moves by RDMA (rput) instead of in packets "
            "(r3)."),
        bytes("VIA_MPI_ONE_COPY_BYTES", "256k", 0, 1 * giga,
              "From this size on a message inside a host moves by RDMA (rget) with one copy, of "
              "which "
              "each end makes a half; from a quarter of it on if others to the same peer are under "
              "way. Below it, and where the kernel allows no CMA, it is copied in and out, by both "
              "ends at the same time (r3)."),
        number("VIA_MPI_CREDITS", "32", 1, 4096,
               "How many packets with messages a peer may have under way to this process before "
               "it hears of it. If it is not set, a peer in this host may have 256, since no vbufs "
               "are posted for them, and one on another host begins with 4."),
        number("VIA_MPI_CREDIT_PRESERVE", "4", 1, 1024,
               "How many credits a peer has besides for its control packets; at most as many as "
               "VIA_MPI_CREDITS."),
        flag("VIA_MPI_PIGGYBACK", "1",
             "Whether credits travel on messages that go the other way; otherwise each that is "
             "due has a packet of its own. Only to see what that is worth."),
        number("VIA_MPI_VBUFS_PER_REGION", "64", 4, 4096,
               "By how many vbufs the pool grows at a time."),
        number("VIA_MPI_VBUF_REGIONS", "1024", 1, 65536,
               "How many regions of vbufs the pool may have."),
        number("VIA_MPI_CACHE_ENTRIES", "1024", 0, 16384,
               "How many buffers stay registered after a transfer by RDMA, in case they are used "
               "again; 0: none."),
        number("VIA_MPI_CONNECT_MS", "10000", 100, 600000,
               "How many milliseconds an MPI or libfabric program waits for a connection to "
               "another before it is told that it can not be reached."),
        choice("VIA_PROGRESS", "auto|spin|sleep", "auto",
               "What a program that polls for messages in vain does: auto gives the core away now "
               "and then, sleep sleeps until a message comes, spin does neither."),
        flag("VIA_UTLB", "1",
             "Whether posting translates addresses by the table that the kernel agent shares; "
             "otherwise the agent is asked at each post. Only to see what that is worth."),
        flag("VIA_STRICT_PTAG", "0",
             "Whether a VI without a protection tag is refused access to memory that has one."),
        text("VIA_SIM_MACHINE", "",
             "In what machine a program that opens a simulated NIC by itself finds it: a name or "
             "the path of a parameter file; if empty, the one of the paper."),
        text("VIA_SIM_FIRMWARE", "",
             "With what firmware: myvia, bvia, gm or the path of a parameter file; if empty, "
             "myvia."),
        text("VIA_HOSTS_FILE", "/etc/vip_hosts",
             "The file in which the VIPL name service looks host names up before it asks the "
             "system."),
        number("VIA_PD_SMALL_RING", "64", 8, 4096,
               "How many physical descriptors a work queue's small ring in the device holds."),
        number("VIA_PD_LOW_WATER", "16", 1, 4095,
               "When only this many physical descriptors are left in the small ring, it is "
               "refilled from the big ring."),
        number("VIA_MAX_DESCRIPTORS", "4096", 16, 65536,
               "How many descriptors may be outstanding on one work queue "
               "(MaxDescriptorsPerQueue)."),
        bytes("VIA_KMEM_ARENA_BYTES", "64m", 1 * mega, 4 * giga,
              "By how much the kernel agent extends the memory that it hands out as kmem."),
        choice("VIA_KMEM_HUGE_PAGES", "auto|never", "auto",
               "Whether kmem uses huge pages where the system has some set aside."),
        choice("VIA_HUGE_PAGES", "auto|never", "auto",
               "Whether memory of 256 KB and more moves to huge pages when a program registers it, "
               "or MPI sends it time and again: single copies (CMA) are then twice as fast. It "
               "takes about a millisecond for each 2 MB, once."),
        flag("VIA_PIN_MEMORY", "0",
             "Whether registering memory also locks its pages in memory, which counts against "
             "RLIMIT_MEMLOCK."),
    };
    return table;
}

}  // namespace via::base
