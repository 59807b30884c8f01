// SPDX-License-Identifier: BSD-3-Clause
#include "sim/experiment/ablations.hpp"

#include <algorithm>
#include <limits>

namespace via::sim {
namespace {

constexpr double no_end = std::numeric_limits<double>::infinity();

constexpr SystemName myvia4{"p3-733", "lanai4", "myvia"};
constexpr SystemName bvia4{"p3-733", "lanai4", "bvia"};
constexpr SystemName myvia9{"athlon-1400", "lanai9", "myvia"};
constexpr SystemName bvia9{"athlon-1400", "lanai9", "bvia"};
constexpr SystemName gm_of_mnc{"xeon-700", "lanai9", "gm"};

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t long_message = 65536;

/// "Comes close", "falls to about".
constexpr double close_low = 0.85;
constexpr double close_high = 1.15;

double shared_access(Laboratory& laboratory, bool with) {
    Nic nic = laboratory.nic("lanai4");
    nic.engines_share_access = !with;
    return laboratory.send_rate(nic, "User", 1U << 20);
}

/// Here the mechanism is that Berkeley VIA does one thing after the other.
double sequential(Laboratory& laboratory, bool with, const SystemName& bvia,
                  const SystemName& myvia, std::uint64_t bytes) {
    ViaSystem system = laboratory.system(bvia);
    if (!with) {
        system.firmware.overlaps_messages = 1;
        system.firmware.buffers = 2;
    }
    return laboratory.window(system, bytes) / laboratory.window(myvia, bytes);
}

double double_buffers(Laboratory& laboratory, bool with, const SystemName& myvia,
                      const SystemName& bvia, std::uint64_t bytes) {
    ViaSystem system = laboratory.system(myvia);
    if (!with) {
        // With a single buffer the next message has nowhere to begin.
        system.firmware.buffers = 1;
        system.firmware.overlaps_messages = 0;
    }
    return laboratory.window(system, bytes) / laboratory.window(bvia, bytes);
}

double limited_bus(Laboratory& laboratory, bool with) {
    ViaSystem system = laboratory.system(gm_of_mnc);
    if (!with) {
        // To have masters that need not share would not do: it is one engine of the NIC that moves
        // both flows, and it waits for the bus.
        system.machine.bus_width = 64;
        system.machine.fetch_overhead = 0;
        system.machine.store_overhead = 0;
    }
    return laboratory.flows(system, Flows::Opposite, long_message)[0] /
           laboratory.window(system, long_message);
}

double one_bus_for_all(Laboratory& laboratory, bool with) {
    MncSystem system{laboratory.system(gm_of_mnc), 2, LinkPolicy::Dynamic};
    system.gm.machine.masters_share_bus = with;
    const double two = laboratory.mnc_window(system, long_message);
    system.links = 1;
    return two / laboratory.mnc_window(system, long_message);
}

/// What it loses when a program's addresses are spread.
double translation_by_host(Laboratory& laboratory, bool with, const SystemName& myvia,
                           const SystemName& bvia) {
    ViaSystem system = laboratory.system(myvia);
    if (!with) system.firmware.translate = laboratory.system(bvia).firmware.translate;
    const double good = laboratory.window(system, page);
    system.locality = Locality::Poor;
    return 1 - laboratory.window(system, page) / good;
}

/// As Berkeley VIA posts: a doorbell, and the NIC fetches the descriptor.
ViaSystem with_descriptor_fetch(Laboratory& laboratory, const SystemName& myvia,
                                const SystemName& bvia) {
    ViaSystem system = laboratory.system(myvia);
    const ViaFirmware firmware = laboratory.system(bvia).firmware;
    system.firmware.descriptor_fetch = firmware.descriptor_fetch;
    system.firmware.host_writes = firmware.host_writes;
    return system;
}

double long_transfers(Laboratory& laboratory, bool with) {
    ViaSystem system = laboratory.system(myvia4);
    if (!with) system.firmware.largest_piece = static_cast<double>(page);
    return laboratory.window(system, long_message);
}

double locks(Laboratory& laboratory, bool with) {
    ViaSystem system = laboratory.system(myvia4);
    if (!with) system.firmware.engine_lock = 0;
    return laboratory.window(bvia4, 1024) / laboratory.window(system, 1024);
}

double chain(Laboratory& laboratory, bool with) {
    ViaSystem system = laboratory.system(myvia9);
    if (!with) system.firmware.chained = 0;
    double most = 0;
    for (const std::uint64_t bytes : {512U, 1024U, 2048U, 4096U})
        most = std::max(most, laboratory.window(system, bytes) / laboratory.window(bvia9, bytes));
    return most;
}

}  // namespace

const std::vector<Ablation>& ablations() {
    static const std::vector<Ablation> all{
        {"engines-share-access", "an access a clock for each DMA engine; they share one",
         "User, 1 MB", "MB/s", "each byte crosses the memory twice: at most 66.7 MB/s",
         "C: every type tops out at 130 to 133 MB/s", 130, 133.4, 60, 66.7, shared_access},
        {"bvia-pipelined-lanai9", "BVIA's one message after the other, LANai 9",
         "BVIA / MyVIA, 2 KB", "", "it comes close to MyVIA",
         "A: MyVIA up to nearly twice BVIA below 8 KB", 0, 0.65, close_low, close_high,
         [](Laboratory& laboratory, bool with) {
             return sequential(laboratory, with, bvia9, myvia9, 2048);
         }},
        {"bvia-pipelined-lanai4", "BVIA's one thing after the other, LANai 4",
         "BVIA / MyVIA, 64 KB", "", "it comes close to MyVIA", "A: BVIA well below 76.2 MB/s", 0,
         0.8, close_low, close_high,
         [](Laboratory& laboratory, bool with) {
             return sequential(laboratory, with, bvia4, myvia4, long_message);
         }},
        {"one-buffer-lanai4", "MyVIA's second buffer, LANai 4", "MyVIA / BVIA, 64 KB", "",
         "it falls to about BVIA", "A: peak of 76.2 MB/s, BVIA well below", 1.25, no_end, close_low,
         close_high,
         [](Laboratory& laboratory, bool with) {
             return double_buffers(laboratory, with, myvia4, bvia4, long_message);
         }},
        {"one-buffer-lanai9", "MyVIA's second buffer, LANai 9", "MyVIA / BVIA, 4 KB", "",
         "it falls to about BVIA", "A: 250 MB/s at 4 KB", 1.25, no_end, close_low, close_high,
         [](Laboratory& laboratory, bool with) {
             return double_buffers(laboratory, with, myvia9, bvia9, page);
         }},
        {"bus-without-limit", "the bus's limits: it is wide and has no overhead",
         "opposite flows / single flow", "", "opposite flows keep all of their rate",
         "D: each gets less than its full rate", 0, 0.95, 0.98, 1.02, limited_bus},
        {"bus-for-each-nic", "contention between two NICs: each has a bus of its own",
         "two links / one link", "", "two links give twice as much",
         "D: two links beat one by less than two", 1.01, 1.85, 1.9, 2.05, one_bus_for_all},
        {"nic-translates-lanai4", "MyVIA's translation by the host, LANai 4",
         "lost by poor locality, 4 KB", "", "10 to 40 % are lost",
         "A: UTLB is independent of locality", 0, 0, 0.10, 0.40,
         [](Laboratory& laboratory, bool with) {
             return translation_by_host(laboratory, with, myvia4, bvia4);
         }},
        {"nic-translates-lanai9", "MyVIA's translation by the host, LANai 9",
         "lost by poor locality, 4 KB", "", "10 to 40 % are lost",
         "A: UTLB is independent of locality", 0, 0, 0.10, 0.40,
         [](Laboratory& laboratory, bool with) {
             return translation_by_host(laboratory, with, myvia9, bvia9);
         }},
        {"descriptor-fetched-lanai4", "the descriptor written by the host, LANai 4",
         "MyVIA one way / as it is, 4 bytes", "", "a DMA more at each end: at least a tenth slower",
         "A: one PIO instead of a PIO and a DMA (without a figure)", 1, 1, 1.1, no_end,
         [](Laboratory& laboratory, bool with) {
             return with
                        ? 1
                        : laboratory.pingpong(with_descriptor_fetch(laboratory, myvia4, bvia4), 4) /
                              laboratory.pingpong(myvia4, 4);
         }},
        {"descriptor-fetched-lanai9", "the descriptor written by the host, LANai 9",
         "MyVIA one way, 4 bytes", "µs", "a DMA more at each end: 8.46 µs are missed",
         "A: least one-way time 8.46 µs", 8.46 * 0.98, 8.46 * 1.02, 8.46 * 1.02, no_end,
         [](Laboratory& laboratory, bool with) {
             return with ? laboratory.pingpong(myvia9, 4)
                         : laboratory.pingpong(with_descriptor_fetch(laboratory, myvia9, bvia9), 4);
         }},
        {"page-by-page", "long DMAs from contiguous memory, LANai 4: a page at a time",
         "MyVIA, 64 KB", "MB/s", "every page pays for all stages: 76.2 MB/s are missed",
         "A: peak of 76.2 MB/s", 76.2 * 0.98, 76.2 * 1.02, 0, 76.2 * 0.98, long_transfers},
        {"no-locks", "the cost of locks in MyVIA's pipeline, LANai 4", "BVIA / MyVIA, 1 KB", "",
         "BVIA is not ahead for short messages either", "A: below about 2000 bytes BVIA is ahead",
         1, no_end, 0, 1, locks},
        {"no-chain", "MyVIA's chain of data and status, LANai 9",
         "most of MyVIA / BVIA, 512 bytes to 4 KB", "", "it is no longer nearly twice as fast",
         "A: MyVIA up to nearly twice BVIA below 8 KB", 1.75, 2.2, 1, 1.75, chain},
    };
    return all;
}

bool AblationResult::fails_as_stated() const {
    return with >= ablation->with_low && with <= ablation->with_high &&
           without >= ablation->without_low && without <= ablation->without_high;
}

base::Result<std::vector<AblationResult>> run_ablations(Laboratory& laboratory) {
    std::vector<AblationResult> results;
    for (const Ablation& ablation : ablations()) {
        results.push_back(
            {&ablation, ablation.question(laboratory, true), ablation.question(laboratory, false)});
        if (laboratory.failure()) return *laboratory.failure();
    }
    return results;
}

}  // namespace via::sim
