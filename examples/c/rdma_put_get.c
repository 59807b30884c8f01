/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA: the client writes a block into the server's memory (put), and reads it back (get). The
 * server does nothing for either; it only learns from 32 bits of immediate data that the block
 * is there.
 *
 *     rdma_put_get                      both sides, in two processes
 *     rdma_put_get server [device]      one side each
 *     rdma_put_get client [device]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vipl.h>
#include <vipx.h>

enum { block_bytes = 65536, patience = 10000 /* milliseconds */, the_block_is_there = 42 };

/* What the server tells the client: where it may write and read. */
struct offer {
    VIP_UINT64 address;
    VIP_MEM_HANDLE handle;
};

/* Private memory of one end: descriptors and the message with the offer. */
struct workspace {
    VIP_DESCRIPTOR send;
    VIP_DESCRIPTOR receive[2];
    struct offer offer;
};

struct end {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;
    VIP_NET_ADDRESS* address;
    struct workspace* work;
    VIP_MEM_HANDLE work_handle;
    unsigned char* block; /* the peer may use the server's */
    VIP_MEM_HANDLE block_handle;
};

static void check(const char* what, VIP_RETURN code) {
    if (code == VIP_SUCCESS) return;
    fprintf(stderr, "rdma_put_get: %s: %s: %s\n", what, VipxReturnName(code), VipxErrorText());
    exit(EXIT_FAILURE);
}

static VIP_NET_ADDRESS* make_address(struct end* end, const char* service) {
    VIP_NET_ADDRESS* address = calloc(1, 256);
    address->HostAddressLen = end->attributes.NicAddressLen;
    memcpy(address->HostAddress, end->attributes.LocalNicAddress, address->HostAddressLen);
    address->DiscriminatorLen = (VIP_UINT16)strlen(service);
    memcpy(address->HostAddress + address->HostAddressLen, service, address->DiscriminatorLen);
    return address;
}

static int can_read(const struct end* end) {
    return (end->attributes.RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY) != 0;
}

/* With `open_to_peer` the block and the VI allow the peer's RDMA. */
static void open_end(struct end* end, const char* device, int open_to_peer) {
    VIP_PROTECTION_HANDLE tag;
    VIP_MEM_ATTRIBUTES rights = {0};
    VIP_VI_ATTRIBUTES wish = {0};
    VIP_PVOID address;

    check("opening the NIC", VipOpenNic(device, &end->nic));
    check("asking the NIC", VipQueryNic(end->nic, &end->attributes));
    check("making a tag", VipCreatePtag(end->nic, &tag));

    rights.Ptag = tag;
    check("allocating the workspace",
          VipxAllocMem(end->nic, sizeof(struct workspace), &rights, &address, &end->work_handle));
    end->work = address;
    rights.EnableRdmaWrite = open_to_peer;
    rights.EnableRdmaRead = open_to_peer && can_read(end);
    check("allocating the block",
          VipxAllocMem(end->nic, block_bytes, &rights, &address, &end->block_handle));
    end->block = address;

    wish.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    wish.MaxTransferSize = end->attributes.MaxTransferSize;
    wish.Ptag = tag;
    wish.EnableRdmaWrite = rights.EnableRdmaWrite;
    wish.EnableRdmaRead = rights.EnableRdmaRead;
    check("making a VI", VipCreateVi(end->nic, &wish, NULL, NULL, &end->vi));
}

static void set_segment(VIP_DATA_SEGMENT* segment, void* data, VIP_MEM_HANDLE handle,
                        VIP_UINT32 bytes) {
    segment->Data.Address = data;
    segment->Handle = handle;
    segment->Length = bytes;
}

static void post_receive(struct end* end, int which) {
    VIP_DESCRIPTOR* descriptor = &end->work->receive[which];
    memset(descriptor, 0, sizeof *descriptor);
    descriptor->CS.SegCount = 1;
    descriptor->CS.Length = sizeof(struct offer);
    set_segment(&descriptor->DS[0].Local, &end->work->offer, end->work_handle,
                sizeof(struct offer));
    check("posting a receive", VipPostRecv(end->vi, descriptor, end->work_handle));
}

static void perform(struct end* end, const char* what) {
    VIP_DESCRIPTOR* done;
    check(what, VipPostSend(end->vi, &end->work->send, end->work_handle));
    check(what, VipSendWait(end->vi, patience, &done));
}

/* One RDMA operation between our whole block and the peer's. */
static void rdma(struct end* end, const char* what, VIP_UINT16 control, VIP_UINT32 immediate) {
    VIP_DESCRIPTOR* descriptor = &end->work->send;
    memset(descriptor, 0, sizeof *descriptor);
    descriptor->CS.SegCount = 2; /* the remote place counts too */
    descriptor->CS.Control = control;
    descriptor->CS.ImmediateData = immediate;
    descriptor->CS.Length = block_bytes;
    descriptor->DS[0].Remote.Data.AddressBits = end->work->offer.address;
    descriptor->DS[0].Remote.Handle = end->work->offer.handle;
    set_segment(&descriptor->DS[1].Local, end->block, end->block_handle, block_bytes);
    perform(end, what);
}

static void write_pattern(unsigned char* block) {
    size_t i;
    for (i = 0; i < block_bytes; i++)
        block[i] = (unsigned char)(i * 7 + i / 256);
}

static int has_pattern(const unsigned char* block) {
    size_t i;
    for (i = 0; i < block_bytes; i++) {
        if (block[i] != (unsigned char)(i * 7 + i / 256)) return 0;
    }
    return 1;
}

static int finish(struct end* end) {
    VIP_DESCRIPTOR* flushed;
    check("disconnecting", VipDisconnect(end->vi));
    do {
        flushed = NULL;
        VipRecvDone(end->vi, &flushed);
    } while (flushed != NULL);
    check("destroying the VI", VipDestroyVi(end->vi));
    check("closing the NIC", VipCloseNic(end->nic)); /* frees the memory as well */
    free(end->address);
    return EXIT_SUCCESS;
}

/* Errors without a descriptor come here instead of into the log. The one to expect is the loss of
   the connection when the client leaves, which the server also sees at its posted receive. */
static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    (void)context;
    (void)error;
}

static int serve(const char* device, const char* service) {
    struct end end;
    VIP_NET_ADDRESS* client = calloc(1, 256);
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *done, *descriptor;

    open_end(&end, device, VIP_TRUE);
    check("setting the handler", VipErrorCallback(end.nic, NULL, ignore_error));
    end.address = make_address(&end, service);
    post_receive(&end, 0); /* for the immediate data */
    post_receive(&end, 1); /* for the end */
    check("waiting for a client",
          VipConnectWait(end.nic, end.address, patience, client, &attributes, &request));
    check("accepting", VipConnectAccept(request, end.vi));

    descriptor = &end.work->send;
    memset(descriptor, 0, sizeof *descriptor);
    end.work->offer.address = (VIP_UINT64)(size_t)end.block;
    end.work->offer.handle = end.block_handle;
    descriptor->CS.SegCount = 1;
    descriptor->CS.Length = sizeof(struct offer);
    set_segment(&descriptor->DS[0].Local, &end.work->offer, end.work_handle, sizeof(struct offer));
    perform(&end, "sending the offer");

    check("waiting for the block", VipRecvWait(end.vi, patience, &done));
    if ((done->CS.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_REMOTE_RDMA_WRITE ||
        (done->CS.Status & VIP_STATUS_IMMEDIATE) == 0 ||
        done->CS.ImmediateData != the_block_is_there || !has_pattern(end.block)) {
        fprintf(stderr, "rdma_put_get: the server did not get the block it expected\n");
        return EXIT_FAILURE;
    }
    printf("put: the server has %d bytes\n", block_bytes);
    memset(descriptor, 0, sizeof *descriptor);
    perform(&end, "confirming"); /* with an empty message */

    /* The client leaves when it is through, which flushes the second receive. */
    if (VipRecvWait(end.vi, patience, &done) != VIP_DESCRIPTOR_ERROR) {
        fprintf(stderr, "rdma_put_get: the client did not leave in time\n");
        return EXIT_FAILURE;
    }
    free(client);
    return finish(&end);
}

static int put_and_get(const char* device, const char* service) {
    const struct timespec pause = {0, 1000000};
    struct end end;
    VIP_NET_ADDRESS* server;
    VIP_VI_ATTRIBUTES attributes;
    VIP_DESCRIPTOR* done;
    VIP_RETURN code;
    int tries = 0;

    open_end(&end, device, VIP_FALSE);
    end.address = make_address(&end, "");
    server = make_address(&end, service);
    post_receive(&end, 0); /* for the offer */
    post_receive(&end, 1); /* for the confirmation */
    while ((code = VipConnectRequest(end.vi, end.address, server, patience, &attributes)) ==
               VIP_NO_MATCH &&
           tries++ < patience) {
        nanosleep(&pause, NULL);
    }
    check("connecting", code);
    check("receiving the offer", VipRecvWait(end.vi, patience, &done));

    write_pattern(end.block);
    rdma(&end, "writing", VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, the_block_is_there);
    check("waiting for the confirmation", VipRecvWait(end.vi, patience, &done));

    if (can_read(&end) && attributes.EnableRdmaRead) {
        memset(end.block, 0, block_bytes);
        rdma(&end, "reading", VIP_CONTROL_OP_RDMAREAD, 0);
        if (!has_pattern(end.block)) {
            fprintf(stderr, "rdma_put_get: the block came back changed\n");
            return EXIT_FAILURE;
        }
        printf("get: the client has %d bytes\n", block_bytes);
    } else {
        printf("get: this NIC has no RDMA read\n");
    }
    free(server);
    return finish(&end);
}

int main(int count, char** words) {
    const char* device = count > 2 ? words[2] : "shm0";
    char service[16];
    int status;
    pid_t child;

    if (count > 1 && strcmp(words[1], "server") == 0) return serve(device, "rdma");
    if (count > 1 && strcmp(words[1], "client") == 0) return put_and_get(device, "rdma");
    if (count > 1) {
        fprintf(stderr, "usage: rdma_put_get [server [device] | client [device]]\n");
        return 2;
    }
    snprintf(service, sizeof service, "rdma-%d", (int)getpid());
    child = fork();
    if (child == 0) return put_and_get(device, service);
    if (child < 0 || serve(device, service) != EXIT_SUCCESS) return EXIT_FAILURE;
    return waitpid(child, &status, 0) == child && status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
