/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Echo: the client sends lines, the server sends them back.
 *
 *     echo                          both sides, in two processes
 *     echo server [device]          one side each, on one host or on two
 *     echo client [device [host]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vipl.h>
#include <vipx.h>

enum { text_bytes = 1024, patience = 10000 /* milliseconds */, rounds = 5 };

/* What a message needs: a descriptor and a place for the data, in registered memory. */
struct message {
    VIP_DESCRIPTOR descriptor;
    char text[text_bytes];
};

/* One end of a connection. The memory begins at a page, and each message at a cache line. */
struct end {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE memory;
    struct message* in;
    struct message* out;
};

static void check(const char* what, VIP_RETURN code) {
    if (code == VIP_SUCCESS) return;
    fprintf(stderr, "echo: %s: %s: %s\n", what, VipxReturnName(code), VipxErrorText());
    exit(EXIT_FAILURE);
}

static void open_end(struct end* end, const char* device) {
    VIP_PROTECTION_HANDLE tag;
    VIP_MEM_ATTRIBUTES rights = {0};
    VIP_VI_ATTRIBUTES wish = {0};
    VIP_PVOID address;

    check("opening the NIC", VipOpenNic(device, &end->nic));
    check("asking the NIC", VipQueryNic(end->nic, &end->attributes));
    check("making a tag", VipCreatePtag(end->nic, &tag));

    rights.Ptag = tag;
    check("allocating memory",
          VipxAllocMem(end->nic, 2 * sizeof(struct message), &rights, &address, &end->memory));
    end->in = address;
    end->out = end->in + 1;

    wish.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    wish.MaxTransferSize = end->attributes.MaxTransferSize;
    wish.Ptag = tag;
    check("making a VI", VipCreateVi(end->nic, &wish, NULL, NULL, &end->vi));
}

/* This NIC's address, or that of another host, with the name of the service behind it. */
static VIP_NET_ADDRESS* make_address(struct end* end, const char* host, const char* service) {
    VIP_NET_ADDRESS* address = calloc(1, 256);
    if (host != NULL) {
        check("starting the name service", VipNSInit(end->nic, NULL));
        check("looking up the host", VipNSGetHostByName(end->nic, (VIP_CHAR*)host, address, 0));
    } else {
        address->HostAddressLen = end->attributes.NicAddressLen;
        memcpy(address->HostAddress, end->attributes.LocalNicAddress, address->HostAddressLen);
    }
    address->DiscriminatorLen = (VIP_UINT16)strlen(service);
    memcpy(address->HostAddress + address->HostAddressLen, service, address->DiscriminatorLen);
    return address;
}

static void fill(struct end* end, struct message* message, VIP_UINT32 bytes) {
    VIP_DESCRIPTOR* descriptor = &message->descriptor;
    memset(descriptor, 0, sizeof *descriptor);
    descriptor->CS.SegCount = 1;
    descriptor->CS.Control = VIP_CONTROL_OP_SENDRECV;
    descriptor->CS.Length = bytes;
    descriptor->DS[0].Local.Data.Address = message->text;
    descriptor->DS[0].Local.Handle = end->memory;
    descriptor->DS[0].Local.Length = bytes;
}

static void post_receive(struct end* end) {
    fill(end, end->in, text_bytes);
    check("posting a receive", VipPostRecv(end->vi, &end->in->descriptor, end->memory));
}

static void send_text(struct end* end, const char* text, VIP_UINT32 bytes) {
    VIP_DESCRIPTOR* done;
    fill(end, end->out, bytes);
    memcpy(end->out->text, text, bytes);
    check("posting a send", VipPostSend(end->vi, &end->out->descriptor, end->memory));
    check("sending", VipSendWait(end->vi, patience, &done));
}

static void close_end(struct end* end) {
    VIP_DESCRIPTOR* flushed;
    check("disconnecting", VipDisconnect(end->vi));
    do { /* The queues must be empty before the VI can go. */
        flushed = NULL;
        VipRecvDone(end->vi, &flushed);
    } while (flushed != NULL);
    check("destroying the VI", VipDestroyVi(end->vi));
    check("freeing memory", VipxFreeMem(end->nic, end->in, end->memory));
    check("closing the NIC", VipCloseNic(end->nic));
}

/* Errors without a descriptor come here instead of into the log. The one to expect is the loss of
   the connection when the client leaves, which the server also sees at its posted receive. */
static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    (void)context;
    (void)error;
}

static int serve(const char* device, const char* service) {
    struct end end;
    VIP_NET_ADDRESS *here, *client;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR* done;
    VIP_RETURN code;

    open_end(&end, device);
    check("setting the handler", VipErrorCallback(end.nic, NULL, ignore_error));
    here = make_address(&end, NULL, service);
    client = calloc(1, 256);
    post_receive(&end); /* before the connection exists, so that no message can come too early */
    check("waiting for a client",
          VipConnectWait(end.nic, here, patience, client, &attributes, &request));
    check("accepting", VipConnectAccept(request, end.vi));

    while ((code = VipRecvWait(end.vi, patience, &done)) == VIP_SUCCESS) {
        VIP_UINT32 bytes = done->CS.Length;
        char text[text_bytes];
        memcpy(text, end.in->text, bytes);
        post_receive(&end); /* the client may answer before our send is even done */
        send_text(&end, text, bytes);
    }
    /* The client's disconnect flushes our posted receive; everything else is a failure. */
    if (code != VIP_DESCRIPTOR_ERROR || done == NULL) check("receiving", code);
    close_end(&end);
    free(here);
    free(client);
    return EXIT_SUCCESS;
}

static int ask(const char* device, const char* host, const char* service) {
    const struct timespec pause = {0, 1000000};
    struct end end;
    VIP_NET_ADDRESS *here, *server;
    VIP_VI_ATTRIBUTES attributes;
    VIP_DESCRIPTOR* done;
    VIP_RETURN code;
    int round, tries = 0;

    open_end(&end, device);
    here = make_address(&end, NULL, "");
    server = make_address(&end, host, service);
    /* VIP_NO_MATCH: the server is not waiting yet. */
    while ((code = VipConnectRequest(end.vi, here, server, patience, &attributes)) ==
               VIP_NO_MATCH &&
           tries++ < patience) {
        nanosleep(&pause, NULL);
    }
    check("connecting", code);

    for (round = 1; round <= rounds; round++) {
        char text[text_bytes];
        VIP_UINT32 bytes = (VIP_UINT32)snprintf(text, sizeof text, "line %d", round);
        post_receive(&end);
        send_text(&end, text, bytes);
        check("receiving", VipRecvWait(end.vi, patience, &done));
        if (done->CS.Length != bytes || memcmp(end.in->text, text, bytes) != 0) {
            fprintf(stderr, "echo: the answer differs from \"%s\"\n", text);
            return EXIT_FAILURE;
        }
        printf("echo: %s\n", text);
    }
    close_end(&end);
    free(here);
    free(server);
    return EXIT_SUCCESS;
}

int main(int count, char** words) {
    const char* device = count > 2 ? words[2] : "shm0";
    char service[16];
    int status;
    pid_t child;

    if (count > 1 && strcmp(words[1], "server") == 0) return serve(device, "echo");
    if (count > 1 && strcmp(words[1], "client") == 0) {
        return ask(device, count > 3 ? words[3] : NULL, "echo");
    }
    if (count > 1) {
        fprintf(stderr, "usage: echo [server [device] | client [device [host]]]\n");
        return 2;
    }
    snprintf(service, sizeof service, "echo-%d", (int)getpid());
    child = fork(); /* before the NIC is opened: a NIC belongs to one process */
    if (child == 0) return ask(device, NULL, service);
    if (child < 0 || serve(device, service) != EXIT_SUCCESS) return EXIT_FAILURE;
    return waitpid(child, &status, 0) == child && status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
