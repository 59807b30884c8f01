/* SPDX-License-Identifier: BSD-3-Clause */
/* The least that needs headers, library and agent: a NIC and some registered memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>
#include <vipx.h>

static char buffer[4096];

static void check(const char* call, VIP_RETURN code) {
    if (code == VIP_SUCCESS) return;
    fprintf(stderr, "%s: %s: %s\n", call, VipxReturnName(code), VipxErrorText());
    exit(1);
}

int main(void) {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_PROTECTION_HANDLE tag;
    VIP_MEM_ATTRIBUTES rights;
    VIP_MEM_HANDLE memory;

    check("VipOpenNic", VipOpenNic("shm0", &nic));
    check("VipQueryNic", VipQueryNic(nic, &attributes));
    check("VipCreatePtag", VipCreatePtag(nic, &tag));
    memset(&rights, 0, sizeof rights);
    rights.Ptag = tag;
    check("VipRegisterMem", VipRegisterMem(nic, buffer, sizeof buffer, &rights, &memory));
    check("VipDeregisterMem", VipDeregisterMem(nic, buffer, memory));
    check("VipDestroyPtag", VipDestroyPtag(nic, tag));
    check("VipCloseNic", VipCloseNic(nic));
    printf("C: %s moves up to %lu bytes in one descriptor\n", attributes.Name,
           (unsigned long)attributes.MaxTransferSize);
    return 0;
}
