/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short reductions and barriers, so many of each communicator that ranks of one host may meet
 * instead of sending messages, against what each rank computes for itself. Any number of ranks.
 *
 *   short_collectives [ROUNDS]
 */
#include <time.h>

#include "check.h"

enum { most = 200 }; /* longer than what is short, too */

/* What a rank of a communicator brings. */
static long value_of(int who, int round, int i) {
    return (long)(who + 1) * (round % 97 + 1) + i;
}

static void sum_of_longs(MPI_Comm comm, int size, int me, int count, int round) {
    long in[most];
    long out[most];
    for (int i = 0; i < count; ++i)
        in[i] = value_of(me, round, i);
    MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < count; ++i) {
        long expected = 0;
        for (int who = 0; who < size; ++who)
            expected += value_of(who, round, i);
        CHECK_EQUAL(out[i], expected);
        CHECK_EQUAL(in[i], value_of(me, round, i));
    }
}

static void most_of_doubles_in_place(MPI_Comm comm, int size, int me, int count, int round) {
    double both[most];
    for (int i = 0; i < count; ++i)
        both[i] = (double)value_of(me, round, i);
    MPI_Allreduce(MPI_IN_PLACE, both, count, MPI_DOUBLE, round % 2 ? MPI_MAX : MPI_MIN, comm);
    for (int i = 0; i < count; ++i)
        CHECK_EQUAL(both[i], value_of(round % 2 ? size - 1 : 0, round, i));
}

static void bits_of_bytes(MPI_Comm comm, int size, int me, int count, int round) {
    unsigned char in[most];
    unsigned char out[most];
    for (int i = 0; i < count; ++i)
        in[i] = (unsigned char)value_of(me, round, i);
    MPI_Allreduce(in, out, count, MPI_UNSIGNED_CHAR, MPI_BXOR, comm);
    for (int i = 0; i < count; ++i) {
        unsigned char expected = 0;
        for (int who = 0; who < size; ++who)
            expected = (unsigned char)(expected ^ (unsigned char)value_of(who, round, i));
        CHECK_EQUAL(out[i], expected);
    }
}

/* The same numbers in the same order: even a sum of floats is alike at all ranks. */
static void floats_alike(MPI_Comm comm, int size, int me, int round) {
    float in = 1.0F / (float)(me + 3 + round % 11);
    float out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, comm);
    float all[64];
    CHECK(size <= 64);
    MPI_Allgather(&out, 1, MPI_FLOAT, all, 1, MPI_FLOAT, comm);
    for (int who = 0; who < size; ++who)
        CHECK(memcmp(&all[who], &out, sizeof out) == 0);
}

static void difference(void* in, void* inout, int* count, MPI_Datatype* datatype) {
    (void)datatype;
    for (int i = 0; i < *count; ++i)
        ((int*)inout)[i] += 2 * ((int*)in)[i];
}

/* What is not simple enough to meet: operations of our own, pairs, other layouts, nothing at all.
 */
static void unusual(MPI_Comm comm, int size, int me, int round) {
    MPI_Op own;
    MPI_Op_create(difference, 1, &own);
    int one = 0;
    int result = 0;
    MPI_Allreduce(&one, &result, 1, MPI_INT, own, comm);
    CHECK_EQUAL(result, 0);
    MPI_Op_free(&own);
    struct {
        double value;
        int who;
    } mine = {.value = (double)((me + round) % size), .who = me}, best;
    MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    CHECK_EQUAL(best.value, size - 1);
    CHECK_EQUAL((best.who + round) % size, size - 1);
    MPI_Allreduce(&one, &result, 0, MPI_INT, MPI_SUM, comm);
}

/* All ranks are on one host: they have one clock. MPI_Wtime begins anew in each process. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Nobody leaves before the last one has come. */
static void barrier(MPI_Comm comm, int me, int late) {
    if (me == late) usleep(300); /* waits for nothing: only so that one is surely the last */
    double came = now();
    MPI_Barrier(comm);
    double left = now();
    double last = 0;
    double first = 0;
    MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, comm);
    CHECK(last <= first);
}

/* A message that needs its sender's help, while the sender is in collective calls. */
static void beside_messages(MPI_Comm comm, int size, int me, int round) {
    enum { bytes = 300000 };
    static char out[bytes];
    static char in[bytes];
    MPI_Request requests[2];
    const int to = (me + 1) % size;
    const int from = (me + size - 1) % size;
    fill(out, bytes, (uint64_t)(me + round));
    MPI_Irecv(in, bytes, MPI_BYTE, from, 5, comm, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, to, 5, comm, &requests[1]);
    for (int i = 0; i < 20; ++i)
        sum_of_longs(comm, size, me, 1, i);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK_BYTES(in, bytes, (uint64_t)(from + round));
}

static void all_of(MPI_Comm comm, int rounds) {
    int size = 0;
    int me = 0;
    uint64_t random = 5;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &me);
    for (int round = 0; round < rounds; ++round) {
        const int count = round % 4 != 0 ? 1 : 1 + (int)below(&random, most);
        switch (below(&random, 8)) {
            case 0:
                most_of_doubles_in_place(comm, size, me, count, round);
                break;
            case 1:
                bits_of_bytes(comm, size, me, count, round);
                break;
            case 2:
                floats_alike(comm, size, me, round);
                break;
            case 3:
                MPI_Barrier(comm);
                break;
            default:
                sum_of_longs(comm, size, me, count, round);
        }
        if (round % 500 == 499) {
            unusual(comm, size, me, round);
            barrier(comm, me, round % size);
            beside_messages(comm, size, me, round);
        }
    }
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "short_collectives");
    const int rounds = argc > 1 ? atoi(argv[1]) : 5000;
    step("all ranks");
    all_of(MPI_COMM_WORLD, rounds);
    step("communicators that are made and freed");
    for (int i = 0; i < 20; ++i) {
        MPI_Comm copy;
        MPI_Comm part;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        all_of(copy, 10 + i * 5); /* some meet, some end before they do */
        MPI_Comm_split(copy, rank % 2, -rank, &part);
        all_of(part, 100);
        MPI_Comm_free(&copy);
        all_of(part, 10);
        MPI_Comm_free(&part);
    }
    return end();
}
