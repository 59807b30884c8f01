/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks: all modes, sizes, wildcards, probes, cancel, persistent requests. */
#include "check.h"

enum { largest = 16 * 1024 * 1024 };

static const size_t sizes[] = {0,      1,       7,       8,       63,     64,     65,     100,
                               1023,   1024,    4000,    4095,    4096,   4097,   8191,   8192,
                               8193,   16384,   65535,   65536,   65537,  100000, 262143, 262144,
                               262145, 1048576, 1048577, 4194304, largest};
enum { size_count = sizeof sizes / sizeof *sizes };

static char* outgoing;
static char* incoming;
static int other;

static void receive_and_check(size_t bytes, int tag, uint64_t seed) {
    MPI_Status status;
    int count = -1;
    memset(incoming, 0, bytes);
    MPI_Recv(incoming, (int)bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(status.MPI_SOURCE, other);
    CHECK_EQUAL(status.MPI_TAG, tag);
    CHECK_EQUAL(count, bytes);
    CHECK_BYTES(incoming, bytes, seed);
}

typedef int (*Send)(const void*, int, MPI_Datatype, int, int, MPI_Comm);

static void every_size_by(const char* name, Send send) {
    step(name);
    for (int i = 0; i < size_count; ++i) {
        fill(outgoing, sizes[i], (uint64_t)i * 31 + (uint64_t)rank);
        if (rank == 0) {
            send(outgoing, (int)sizes[i], MPI_BYTE, other, i, MPI_COMM_WORLD);
            receive_and_check(sizes[i], i, (uint64_t)i * 31 + 1);
        } else {
            receive_and_check(sizes[i], i, (uint64_t)i * 31);
            send(outgoing, (int)sizes[i], MPI_BYTE, other, i, MPI_COMM_WORLD);
        }
    }
}

static void buffered(void) {
    step("MPI_Bsend");
    const int room = 4 * 1024 * 1024;
    char* const buffer = take_memory((size_t)room);
    MPI_Buffer_attach(buffer, room);
    for (int i = 0; i < size_count && sizes[i] <= 1048577; ++i) {
        fill(outgoing, sizes[i], (uint64_t)i);
        /* Both at once: neither may wait for the other. */
        MPI_Bsend(outgoing, (int)sizes[i], MPI_BYTE, other, i, MPI_COMM_WORLD);
        memset(outgoing, 0, sizes[i]);
        receive_and_check(sizes[i], i, (uint64_t)i);
    }
    void* given_back = NULL;
    int size = 0;
    MPI_Buffer_detach(&given_back, &size);
    CHECK(given_back == buffer);
    free(buffer);
}

static void ready(void) {
    step("MPI_Rsend");
    for (int i = 0; i < size_count; ++i) {
        MPI_Request request = MPI_REQUEST_NULL;
        fill(outgoing, sizes[i], (uint64_t)i);
        if (rank == 1) {
            memset(incoming, 0, sizes[i]);
            MPI_Irecv(incoming, (int)sizes[i], MPI_BYTE, 0, i, MPI_COMM_WORLD, &request);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Rsend(outgoing, (int)sizes[i], MPI_BYTE, 1, i, MPI_COMM_WORLD);
        } else {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            CHECK_BYTES(incoming, sizes[i], (uint64_t)i);
        }
    }
}

/* A synchronous send is not done before its receive has begun. */
static void synchronous_waits(void) {
    step("MPI_Issend before its receive");
    for (int i = 0; i < size_count; i += 4) {
        if (rank == 0) {
            MPI_Request request;
            int done = 1;
            fill(outgoing, sizes[i], 5);
            MPI_Issend(outgoing, (int)sizes[i], MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
            for (int look = 0; look < 2000; ++look) {
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                CHECK(!done);
            }
            MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            receive_and_check(sizes[i], 1, 5);
        }
    }
}

static void both_at_once(void) {
    step("both send at once");
    for (int i = 0; i < size_count; ++i) {
        MPI_Status status;
        fill(outgoing, sizes[i], (uint64_t)rank);
        memset(incoming, 0, sizes[i]);
        MPI_Sendrecv(outgoing, (int)sizes[i], MPI_BYTE, other, 1, incoming, (int)sizes[i], MPI_BYTE,
                     other, 1, MPI_COMM_WORLD, &status);
        CHECK_BYTES(incoming, sizes[i], (uint64_t)other);
        MPI_Sendrecv_replace(outgoing, (int)sizes[i], MPI_BYTE, other, 2, other, 2, MPI_COMM_WORLD,
                             &status);
        CHECK_BYTES(outgoing, sizes[i], (uint64_t)other);
    }
}

static void to_itself(void) {
    step("to itself");
    for (int i = 0; i < size_count; ++i) {
        MPI_Request request;
        fill(outgoing, sizes[i], 9);
        memset(incoming, 0, sizes[i]);
        if (i % 2 == 0) {
            MPI_Irecv(incoming, (int)sizes[i], MPI_BYTE, rank, 3, MPI_COMM_WORLD, &request);
            MPI_Send(outgoing, (int)sizes[i], MPI_BYTE, rank, 3, MPI_COMM_WORLD);
        } else {
            MPI_Isend(outgoing, (int)sizes[i], MPI_BYTE, rank, 3, MPI_COMM_WORLD, &request);
            MPI_Recv(incoming, (int)sizes[i], MPI_BYTE, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_BYTES(incoming, sizes[i], 9);
    }
}

/* Messages of one tag arrive in the order in which they were sent, whatever their protocol. */
static void order(void) {
    step("order");
    enum { count = 400 };
    MPI_Request requests[count];
    const size_t lengths[] = {8, 100000, 16, 5000, 300000, 64, 9000, 8};
    const size_t most = 300000;
    if (rank == 0) {
        for (int i = 0; i < count; ++i) {
            const size_t bytes = lengths[i % 8];
            char* const from = take_memory(bytes);
            fill(from, bytes, (uint64_t)i);
            MPI_Isend(from, (int)bytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &requests[i]);
            MPI_Request_free(&requests[i]);
            /* The buffer lives until the other side says that it has all. */
        }
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < count; ++i) {
            MPI_Status status;
            int got = 0;
            const int wild = i % 3;
            MPI_Recv(incoming, (int)most, MPI_BYTE, wild == 1 ? MPI_ANY_SOURCE : 0,
                     wild == 2 ? MPI_ANY_TAG : 4, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            CHECK_EQUAL(got, lengths[i % 8]);
            CHECK_EQUAL(status.MPI_TAG, 4);
            CHECK_BYTES(incoming, lengths[i % 8], (uint64_t)i);
        }
        MPI_Send(NULL, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Thousands of messages that nobody has asked for yet, taken in the opposite order. */
static void unexpected(void) {
    step("unexpected messages, last first");
    enum { count = 3000 };
    if (rank == 0) {
        for (int i = 0; i < count; ++i) {
            const size_t bytes = i % 50 == 0 ? 40000 : (size_t)(i % 700);
            MPI_Request request;
            char* const from = take_memory(bytes);
            fill(from, bytes, (uint64_t)i);
            if (bytes >= 40000) {
                MPI_Isend(from, (int)bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            } else {
                /* Also of small ones MPI may make a rendezvous, so nobody may wait here. */
                MPI_Isend(from, (int)bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request);
                MPI_Request_free(&request);
            }
        }
        MPI_Send(NULL, 0, MPI_BYTE, 1, count, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, count, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, count, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = count - 1; i >= 0; --i)
            receive_and_check(i % 50 == 0 ? 40000 : (size_t)(i % 700), i, (uint64_t)i);
        MPI_Send(NULL, 0, MPI_BYTE, 0, count, MPI_COMM_WORLD);
    }
}

static void probes(void) {
    step("probes");
    for (int i = 0; i < size_count; ++i) {
        if (rank == 0) {
            MPI_Request request;
            fill(outgoing, sizes[i], (uint64_t)i);
            MPI_Isend(outgoing, (int)sizes[i], MPI_BYTE, 1, 100 + i, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Status status;
            MPI_Message message = MPI_MESSAGE_NULL;
            int there = 0;
            int count = -1;
            const int way = i % 4;
            if (way == 0) MPI_Probe(0, 100 + i, MPI_COMM_WORLD, &status);
            while (way == 1 && !there)
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
            if (way == 2) MPI_Mprobe(MPI_ANY_SOURCE, 100 + i, MPI_COMM_WORLD, &message, &status);
            while (way == 3 && !there)
                MPI_Improbe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &message, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQUAL(count, sizes[i]);
            CHECK_EQUAL(status.MPI_TAG, 100 + i);
            CHECK_EQUAL(status.MPI_SOURCE, 0);
            memset(incoming, 0, sizes[i]);
            if (way < 2) {
                MPI_Recv(incoming, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                         MPI_COMM_WORLD, &status);
            } else if (way == 2) {
                MPI_Mrecv(incoming, count, MPI_BYTE, &message, &status);
            } else {
                MPI_Request request;
                MPI_Imrecv(incoming, count, MPI_BYTE, &message, &request);
                MPI_Wait(&request, &status);
            }
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQUAL(count, sizes[i]);
            CHECK_BYTES(incoming, sizes[i], (uint64_t)i);
        }
    }
    /* What was taken by a matched probe, no receive gets any more. */
    step("a matched probe takes the message");
    if (rank == 0) {
        for (int i = 0; i < 3; ++i)
            MPI_Send(&i, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
    } else {
        MPI_Message first;
        MPI_Status status;
        int value = -1;
        MPI_Mprobe(0, 7, MPI_COMM_WORLD, &first, &status);
        MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &status);
        CHECK_EQUAL(value, 1);
        MPI_Mrecv(&value, 1, MPI_INT, &first, &status);
        CHECK_EQUAL(value, 0);
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK_EQUAL(value, 2);
    }
    step("a probe that finds nothing");
    int there = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 100; ++i) {
        MPI_Iprobe(other, 4242, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        CHECK(!there);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void cancels(void) {
    step("cancelled receives");
    for (int i = 0; i < 200; ++i) {
        MPI_Request request;
        MPI_Status status;
        int cancelled = 0;
        MPI_Irecv(incoming, 1000, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : other, 77, MPI_COMM_WORLD,
                  &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* A message is either received or still there: a cancel never loses it. */
    step("cancels that race with messages");
    for (int i = 0; i < 200; ++i) {
        int value = -1;
        if (rank == 0) {
            MPI_Send(&i, 1, MPI_INT, 1, 78, MPI_COMM_WORLD);
            continue;
        }
        MPI_Request request;
        MPI_Status status;
        int cancelled = 0;
        MPI_Irecv(&value, 1, MPI_INT, 0, 78, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        if (cancelled) MPI_Recv(&value, 1, MPI_INT, 0, 78, MPI_COMM_WORLD, &status);
        CHECK_EQUAL(value, i);
    }
}

static void persistent(void) {
    step("persistent requests");
    enum { count = 8, times = 50 };
    MPI_Request requests[2 * count];
    char* out[count];
    char* in[count];
    const size_t lengths[count] = {0, 8, 100, 5000, 20000, 100000, 300000, 1000};
    for (int i = 0; i < count; ++i) {
        out[i] = take_memory(lengths[i]);
        in[i] = take_memory(lengths[i]);
        MPI_Recv_init(in[i], (int)lengths[i], MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[i]);
        if (i % 2)
            MPI_Send_init(out[i], (int)lengths[i], MPI_BYTE, other, i, MPI_COMM_WORLD,
                          &requests[count + i]);
        else
            MPI_Ssend_init(out[i], (int)lengths[i], MPI_BYTE, other, i, MPI_COMM_WORLD,
                           &requests[count + i]);
    }
    for (int round = 0; round < times; ++round) {
        for (int i = 0; i < count; ++i)
            fill(out[i], lengths[i], (uint64_t)(round * 100 + i * 2 + rank));
        MPI_Startall(2 * count, requests);
        MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; ++i)
            CHECK_BYTES(in[i], lengths[i], (uint64_t)(round * 100 + i * 2 + other));
    }
    for (int i = 0; i < 2 * count; ++i)
        MPI_Request_free(&requests[i]);
    for (int i = 0; i < count; ++i) {
        free(out[i]);
        free(in[i]);
    }
}

static void truncated(void) {
    step("messages that are too long for their receive");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const size_t lengths[] = {2, 64, 4096, 5000, 70000, 1048576};
    for (int i = 0; i < 6; ++i) {
        for (int late = 0; late < 2; ++late) {
            const size_t bytes = lengths[i];
            if (rank == 0) {
                fill(outgoing, bytes, 3);
                if (!late) MPI_Barrier(MPI_COMM_WORLD);
                MPI_Request request;
                MPI_Isend(outgoing, (int)bytes, MPI_BYTE, 1, 8, MPI_COMM_WORLD, &request);
                if (late) MPI_Barrier(MPI_COMM_WORLD);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else {
                MPI_Request request;
                MPI_Status status;
                int class = MPI_SUCCESS;
                const size_t room = bytes / 2;
                memset(incoming, 0x55, bytes);
                if (late) MPI_Barrier(MPI_COMM_WORLD);
                MPI_Irecv(incoming, (int)room, MPI_BYTE, 0, 8, MPI_COMM_WORLD, &request);
                if (!late) MPI_Barrier(MPI_COMM_WORLD);
                const int code = MPI_Wait(&request, &status);
                CHECK(code != MPI_SUCCESS);
                MPI_Error_class(code, &class);
                CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
                for (size_t byte = room; byte < bytes; ++byte)
                    CHECK_EQUAL(incoming[byte], 0x55);
            }
            /* And the next message is as good as ever. */
            fill(outgoing, 100, 4);
            if (rank == 0)
                MPI_Send(outgoing, 100, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
            else
                receive_and_check(100, 8, 4);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* A buffer whose pages are new each time: what was registered for the old ones must not be used. */
static void fresh_memory(void) {
    step("memory that is freed and taken again");
    const size_t bytes = 2 * 1024 * 1024;
    for (int i = 0; i < 24; ++i) {
        char* const memory = take_memory(bytes);
        if (rank == 0) {
            fill(memory, bytes, (uint64_t)i);
            MPI_Send(memory, (int)bytes, MPI_BYTE, 1, 9, MPI_COMM_WORLD);
        } else {
            memset(memory, 0, bytes);
            MPI_Recv(memory, (int)bytes, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_BYTES(memory, bytes, (uint64_t)i);
        }
        free(memory);
    }
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "point_to_point");
    if (ranks != 2) FAIL("this is for two ranks");
    other = 1 - rank;
    outgoing = take_memory(largest);
    incoming = take_memory(largest);
    every_size_by("MPI_Send", MPI_Send);
    every_size_by("MPI_Ssend", MPI_Ssend);
    buffered();
    ready();
    synchronous_waits();
    both_at_once();
    to_itself();
    order();
    unexpected();
    probes();
    cancels();
    persistent();
    truncated();
    fresh_memory();
    free(outgoing);
    free(incoming);
    return end();
}
