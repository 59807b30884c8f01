/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: copies, parts, between groups, topologies. Messages of one never reach another. */
#include "check.h"

static void copies(void) {
    step("copies keep their messages apart");
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    const int to = (rank + 1) % ranks;
    const int from = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 100; ++i) {
        const int in_world = i * 2;
        const int in_copy = i * 2 + 1;
        int got = -1;
        MPI_Request requests[2];
        MPI_Isend(&in_world, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&in_copy, 1, MPI_INT, to, 1, copy, &requests[1]);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, copy, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, in_copy);
        MPI_Recv(&got, 1, MPI_INT, from, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, in_world);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Comm_free(&copy);
}

static void parts(void) {
    step("parts");
    for (int round = 0; round < 20; ++round) {
        MPI_Comm part;
        int size = 0;
        int number = -1;
        const int color = (rank + round) % 2;
        /* Ranks in the opposite order. */
        MPI_Comm_split(MPI_COMM_WORLD, color, -rank, &part);
        MPI_Comm_size(part, &size);
        MPI_Comm_rank(part, &number);
        int sum = 0;
        int expected = 0;
        int higher = 0;
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, part);
        for (int i = 0; i < ranks; ++i) {
            if ((i + round) % 2 != color) continue;
            expected += i;
            if (i > rank) ++higher;
        }
        CHECK_EQUAL(sum, expected);
        CHECK_EQUAL(number, higher);
        MPI_Comm_free(&part);
    }
    MPI_Comm none;
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &none);
    CHECK_EQUAL(none == MPI_COMM_NULL, rank == 0);
    if (none != MPI_COMM_NULL) MPI_Comm_free(&none);
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Barrier(host);
    MPI_Comm_free(&host);
}

static void between_groups(void) {
    step("between two groups");
    MPI_Comm half;
    MPI_Comm between;
    MPI_Comm merged;
    const int side = rank % 2;
    int others = 0;
    int own = -1;
    MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
    MPI_Comm_rank(half, &own);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 12, &between);
    MPI_Comm_remote_size(between, &others);
    CHECK_EQUAL(others, side == 0 ? ranks / 2 : (ranks + 1) / 2);
    for (size_t bytes = 1; bytes <= 1000000; bytes *= 10) {
        char* const memory = take_memory(bytes);
        MPI_Status status;
        if (own < others && own < ranks / 2) {
            if (side == 0) {
                fill(memory, bytes, (uint64_t)own);
                MPI_Send(memory, (int)bytes, MPI_BYTE, own, 3, between);
            } else {
                MPI_Recv(memory, (int)bytes, MPI_BYTE, MPI_ANY_SOURCE, 3, between, &status);
                CHECK_EQUAL(status.MPI_SOURCE, own);
                CHECK_BYTES(memory, bytes, (uint64_t)own);
            }
        }
        free(memory);
    }
    /* Each side gets the sum of the other. */
    int sum = 0;
    int expected = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, between);
    for (int i = 1 - side; i < ranks; i += 2)
        expected += i;
    CHECK_EQUAL(sum, expected);
    MPI_Intercomm_merge(between, side, &merged);
    int size = 0;
    MPI_Comm_size(merged, &size);
    CHECK_EQUAL(size, ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK_EQUAL(sum, ranks * (ranks - 1) / 2);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void neighbours(void) {
    step("a ring of neighbours");
    MPI_Comm ring;
    int length = ranks;
    int periodic = 1;
    int before = -1;
    int after = -1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &length, &periodic, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &before, &after);
    int got[2] = {-1, -1};
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, ring);
    CHECK_EQUAL(got[0], before);
    CHECK_EQUAL(got[1], after);
    MPI_Comm_free(&ring);
}

/* More communicators than there are bits for in some tags, made and freed. */
static void many(void) {
    step("many communicators");
    enum { count = 200 };
    MPI_Comm list[count];
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < count; ++i)
            MPI_Comm_dup(MPI_COMM_WORLD, &list[i]);
        for (int i = count - 1; i >= 0; --i) {
            int value = rank == i % ranks ? i : -1;
            MPI_Bcast(&value, 1, MPI_INT, i % ranks, list[i]);
            CHECK_EQUAL(value, i);
        }
        for (int i = 0; i < count; ++i)
            MPI_Comm_free(&list[i]);
    }
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "communicators");
    if (ranks < 2) FAIL("this is for two ranks or more");
    copies();
    parts();
    between_groups();
    neighbours();
    many();
    return end();
}
