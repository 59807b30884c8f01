/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One server, many clients, one completion queue. Each client sends numbers; the server answers
 * each with the client's sum so far.
 *
 *     many_client_server                        a server and four clients
 *     many_client_server server [clients]       one process each; start the server for as many
 *     many_client_server client                 clients as will come
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vipl.h>
#include <vipx.h>

enum { most_clients = 64, numbers = 100, patience = 10000 /* milliseconds */ };

/* Registered memory of one connection; whole cache lines, so that an array stays aligned. */
struct slot {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    VIP_UINT64 in;
    VIP_UINT64 out;
    char unused[48];
};

struct nic {
    VIP_NIC_HANDLE handle;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_PROTECTION_HANDLE tag;
    struct slot* slots;
    VIP_MEM_HANDLE memory;
};

static void check(const char* what, VIP_RETURN code) {
    if (code == VIP_SUCCESS) return;
    fprintf(stderr, "many_client_server: %s: %s: %s\n", what, VipxReturnName(code),
            VipxErrorText());
    exit(EXIT_FAILURE);
}

static void open_nic(struct nic* nic, size_t slots) {
    VIP_MEM_ATTRIBUTES rights = {0};
    VIP_PVOID address;
    check("opening the NIC", VipOpenNic("shm0", &nic->handle));
    check("asking the NIC", VipQueryNic(nic->handle, &nic->attributes));
    check("making a tag", VipCreatePtag(nic->handle, &nic->tag));
    rights.Ptag = nic->tag;
    check("allocating memory",
          VipxAllocMem(nic->handle, slots * sizeof(struct slot), &rights, &address, &nic->memory));
    nic->slots = address;
}

static VIP_VI_HANDLE make_vi(struct nic* nic, VIP_CQ_HANDLE queue) {
    VIP_VI_ATTRIBUTES wish = {0};
    VIP_VI_HANDLE vi;
    wish.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    wish.MaxTransferSize = nic->attributes.MaxTransferSize;
    wish.Ptag = nic->tag;
    check("making a VI", VipCreateVi(nic->handle, &wish, queue, queue, &vi));
    return vi;
}

static VIP_NET_ADDRESS* make_address(struct nic* nic, const char* service) {
    VIP_NET_ADDRESS* address = calloc(1, 256);
    address->HostAddressLen = nic->attributes.NicAddressLen;
    memcpy(address->HostAddress, nic->attributes.LocalNicAddress, address->HostAddressLen);
    address->DiscriminatorLen = (VIP_UINT16)strlen(service);
    memcpy(address->HostAddress + address->HostAddressLen, service, address->DiscriminatorLen);
    return address;
}

static void fill(VIP_DESCRIPTOR* descriptor, VIP_UINT64* number, VIP_MEM_HANDLE memory) {
    memset(descriptor, 0, sizeof *descriptor);
    descriptor->CS.SegCount = 1;
    descriptor->CS.Length = sizeof *number;
    descriptor->DS[0].Local.Data.Address = number;
    descriptor->DS[0].Local.Handle = memory;
    descriptor->DS[0].Local.Length = sizeof *number;
}

static void post_receive(struct nic* nic, VIP_VI_HANDLE vi, struct slot* slot) {
    fill(&slot->receive, &slot->in, nic->memory);
    check("posting a receive", VipPostRecv(vi, &slot->receive, nic->memory));
}

static void post_send(struct nic* nic, VIP_VI_HANDLE vi, struct slot* slot) {
    fill(&slot->send, &slot->out, nic->memory);
    check("posting a send", VipPostSend(vi, &slot->send, nic->memory));
}

/* Errors without a descriptor come here instead of into the log. The one to expect is the loss of
   the connection when a client leaves, which the server also sees at its posted receive. */
static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    (void)context;
    (void)error;
}

static int serve(const char* service, int clients) {
    struct nic nic;
    VIP_VI_HANDLE vi[most_clients];
    VIP_UINT64 sum[most_clients] = {0};
    int owed[most_clients] = {0}, sending[most_clients] = {0};
    VIP_CQ_HANDLE queue;
    VIP_NET_ADDRESS *here, *client;
    int i, connected, served = 0;

    open_nic(&nic, (size_t)clients);
    check("setting the handler", VipErrorCallback(nic.handle, NULL, ignore_error));
    check("making a completion queue", VipCreateCQ(nic.handle, 2 * most_clients, &queue));
    here = make_address(&nic, service);
    client = calloc(1, 256);
    for (i = 0; i < clients; i++) {
        VIP_VI_ATTRIBUTES attributes;
        VIP_CONN_HANDLE request;
        vi[i] = make_vi(&nic, queue);
        post_receive(&nic, vi[i], &nic.slots[i]);
        check("waiting for a client",
              VipConnectWait(nic.handle, here, patience, client, &attributes, &request));
        check("accepting", VipConnectAccept(request, vi[i]));
    }

    connected = clients;
    while (connected > 0) {
        VIP_VI_HANDLE which;
        VIP_BOOLEAN received;
        VIP_DESCRIPTOR* done;
        /* An entry says where something ended; what ended is still to be fetched there. */
        check("waiting for anything", VipCQWait(queue, patience, &which, &received));
        for (i = 0; vi[i] != which; i++) {
        }
        if (!received) {
            VipSendDone(which, &done);
            sending[i] = 0;
        } else if (VipRecvDone(which, &done) == VIP_SUCCESS) {
            sum[i] += nic.slots[i].in;
            post_receive(&nic, which, &nic.slots[i]);
            owed[i] = 1;
        } else {
            connected--; /* flushed: this client has left */
        }
        if (owed[i] && !sending[i]) { /* the last answer may still be on its way */
            nic.slots[i].out = sum[i];
            post_send(&nic, which, &nic.slots[i]);
            owed[i] = 0;
            sending[i] = 1;
            served++;
        }
    }
    printf("served %d requests of %d clients\n", served, clients);

    for (i = 0; i < clients; i++) {
        VIP_DESCRIPTOR* rest;
        check("disconnecting", VipDisconnect(vi[i]));
        do {
            rest = NULL;
            VipSendDone(vi[i], &rest);
        } while (rest != NULL);
        check("destroying a VI", VipDestroyVi(vi[i]));
    }
    check("destroying the completion queue", VipDestroyCQ(queue));
    check("closing the NIC", VipCloseNic(nic.handle));
    free(here);
    free(client);
    return served == clients * numbers ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int ask(const char* service) {
    const struct timespec pause = {0, 1000000};
    struct nic nic;
    VIP_VI_HANDLE vi;
    VIP_NET_ADDRESS *here, *server;
    VIP_VI_ATTRIBUTES attributes;
    VIP_DESCRIPTOR* done;
    VIP_RETURN code;
    VIP_UINT64 number, expected = 0;
    int tries = 0;

    open_nic(&nic, 1);
    vi = make_vi(&nic, NULL);
    here = make_address(&nic, "");
    server = make_address(&nic, service);
    while ((code = VipConnectRequest(vi, here, server, patience, &attributes)) == VIP_NO_MATCH &&
           tries++ < patience) {
        nanosleep(&pause, NULL);
    }
    check("connecting", code);

    for (number = 1; number <= numbers; number++) {
        post_receive(&nic, vi, nic.slots);
        nic.slots->out = number;
        post_send(&nic, vi, nic.slots);
        check("sending", VipSendWait(vi, patience, &done));
        check("receiving", VipRecvWait(vi, patience, &done));
        expected += number;
        if (nic.slots->in != expected) {
            fprintf(stderr, "many_client_server: the server cannot add\n");
            return EXIT_FAILURE;
        }
    }
    check("disconnecting", VipDisconnect(vi));
    check("destroying the VI", VipDestroyVi(vi));
    check("closing the NIC", VipCloseNic(nic.handle));
    free(here);
    free(server);
    return EXIT_SUCCESS;
}

int main(int count, char** words) {
    int clients = count > 2 ? atoi(words[2]) : 4;
    char service[16];
    int i, status, result;

    if (clients < 1 || clients > most_clients) {
        fprintf(stderr, "many_client_server: from 1 to %d clients, please\n", most_clients);
        return 2;
    }
    if (count > 1 && strcmp(words[1], "server") == 0) return serve("sum", clients);
    if (count > 1 && strcmp(words[1], "client") == 0) return ask("sum");
    if (count > 1) {
        fprintf(stderr, "usage: many_client_server [server [clients] | client]\n");
        return 2;
    }
    snprintf(service, sizeof service, "sum-%d", (int)getpid());
    for (i = 0; i < clients; i++) {
        pid_t child = fork();
        if (child == 0) return ask(service);
        if (child < 0) return EXIT_FAILURE;
    }
    result = serve(service, clients);
    for (i = 0; i < clients; i++) {
        if (wait(&status) < 0 || status != 0) result = EXIT_FAILURE;
    }
    return result;
}
