/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Viaduct's additions to VIPL: memory that peers can map, errors in sentences, how connections
 * use several links, and simulated hosts.
 *
 * Every name here begins with Vipx; nothing in vipl.h depends on this file. Manual: vipx(3).
 */
#ifndef VIPX_H
#define VIPX_H

#include <vipl.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/*
 * Memory from the kernel agent's allocator (kmem), page aligned and registered at once with
 * MemAttribs. A connected peer whose VI carries the same protection tag can map it, and data
 * then moves with one copy and no system call. Parts of it may be registered again with
 * VipRegisterMem, for instance with other rights.
 */
VIP_RETURN VipxAllocMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG Length,
                        IN VIP_MEM_ATTRIBUTES* MemAttribs, OUT VIP_PVOID* Address,
                        OUT VIP_MEM_HANDLE* MemoryHandle);

/* Takes back what VipxAllocMem gave; no descriptor may use it any more. */
VIP_RETURN VipxFreeMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Address,
                       IN VIP_MEM_HANDLE MemoryHandle);

/*
 * A sentence about the calling thread's last VIPL call that failed: what was tried, what went
 * wrong, what to do. Never NULL. The text is the library's and lasts until the thread's next
 * failing call. That nothing has ended yet (VIP_NOT_DONE, VIP_TIMEOUT of a wait for completions)
 * or ended badly (VIP_DESCRIPTOR_ERROR) is no failure of the call.
 */
const VIP_CHAR* VipxErrorText(void);

/* The name of a code, such as "VIP_NO_MATCH". Never NULL. */
const VIP_CHAR* VipxReturnName(IN VIP_RETURN Code);

/*
 * How connections between hosts choose among their links for what this end sends: "static",
 * "oneway", "dynamic" or "adaptive". ViHandle: one VI, connected or not, at once. NULL: all VIs of
 * this process on the device and those to come, each when it next sends or receives. Any thread.
 */
VIP_RETURN VipxSetLinkPolicy(IN VIP_NIC_HANDLE NicHandle, IN VIP_VI_HANDLE ViHandle,
                             IN const VIP_CHAR* Policy);

/*
 * Simulated hosts, each with one NIC of the papers, on one switch. Names are those of parameters
 * that come with Viaduct, or paths of such files.
 */
typedef struct {
    const VIP_CHAR* Nic;      /* "lanai4" or "lanai9"; also the device for VipOpenNic */
    const VIP_CHAR* Machine;  /* such as "p3-733"; NULL: the one of the paper */
    const VIP_CHAR* Firmware; /* "myvia", "bvia" or "gm"; NULL: "myvia" */
    double ClockMHz;          /* of the NIC; 0: its own */
    VIP_UINT32 Hosts;         /* 1 to 32 */
} VIPX_SIMULATION;

/*
 * Calls Host for each host, on a thread of its own, and returns when all have returned. These
 * threads live in simulated time: what they compute takes none, what they ask of their NIC takes
 * as long as it would have taken, and timeouts are of that time. One runs at a time, so a run is
 * the same every time; do not block in anything but VIPL. VipNSGetHostByName knows the hosts as
 * "a", "b" and so on.
 */
VIP_RETURN VipxSimulate(IN const VIPX_SIMULATION* Simulation,
                        IN void (*Host)(VIP_UINT32 Number, VIP_PVOID Context),
                        IN VIP_PVOID Context);

/* Nanoseconds on the calling thread's clock: simulated on a simulated host, else monotonic. */
VIP_UINT64 VipxNanoseconds(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* VIPX_H */
