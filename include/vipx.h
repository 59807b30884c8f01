/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Viaduct's additions to VIPL: memory that peers can map, and errors in sentences.
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

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif /* VIPX_H */
