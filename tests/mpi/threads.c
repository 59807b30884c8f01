/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of all ranks send and receive at once: on one communicator by tag, and on one each. */
#include <pthread.h>

#include "check.h"

enum { thread_count = 4, rounds = 300 };

static MPI_Comm own_communicator[thread_count];
static int use_own;

static const size_t lengths[] = {0, 8, 200, 4096, 9000, 70000, 8, 300000, 24, 1000};

static void* talk(void* argument) {
    const int number = (int)(intptr_t)argument;
    MPI_Comm communicator = use_own ? own_communicator[number] : MPI_COMM_WORLD;
    const int partner = rank ^ 1;
    char* const out = take_memory(300000);
    char* const in = take_memory(300000);
    for (int round = 0; round < rounds; ++round) {
        const size_t bytes = lengths[(round + number) % 10];
        const uint64_t seed = (uint64_t)(round * 1000 + number * 10);
        const int tag = number * 1000 + round % 7;
        MPI_Request request;
        MPI_Status status;
        int count = -1;
        fill(out, bytes, seed + (uint64_t)rank);
        memset(in, 0, bytes);
        if (round % 3 == 0) {
            MPI_Irecv(in, (int)bytes, MPI_BYTE, partner, tag, communicator, &request);
            MPI_Send(out, (int)bytes, MPI_BYTE, partner, tag, communicator);
            MPI_Wait(&request, &status);
        } else if (round % 3 == 1) {
            MPI_Isend(out, (int)bytes, MPI_BYTE, partner, tag, communicator, &request);
            MPI_Recv(in, (int)bytes, MPI_BYTE, use_own ? MPI_ANY_SOURCE : partner, tag,
                     communicator, &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Message message;
            MPI_Isend(out, (int)bytes, MPI_BYTE, partner, tag, communicator, &request);
            MPI_Mprobe(partner, tag, communicator, &message, &status);
            MPI_Mrecv(in, (int)bytes, MPI_BYTE, &message, &status);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, bytes);
        CHECK_BYTES(in, bytes, seed + (uint64_t)partner);
    }
    free(out);
    free(in);
    return NULL;
}

static void* reduce(void* argument) {
    const int number = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; ++round) {
        long mine = rank + round;
        long sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, own_communicator[number]);
        CHECK_EQUAL(sum, (long)ranks * (ranks - 1) / 2 + (long)ranks * round);
    }
    return NULL;
}

static void in_threads(void* (*what)(void*)) {
    pthread_t threads[thread_count];
    for (intptr_t i = 0; i < thread_count; ++i)
        if (pthread_create(&threads[i], NULL, what, (void*)i) != 0) FAIL("no thread");
    for (int i = 0; i < thread_count; ++i)
        pthread_join(threads[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    begin_at_level(&argc, &argv, "threads", MPI_THREAD_MULTIPLE);
    if (ranks % 2 != 0) FAIL("this is for an even number of ranks");
    for (int i = 0; i < thread_count; ++i)
        MPI_Comm_dup(MPI_COMM_WORLD, &own_communicator[i]);
    step("all threads on one communicator");
    in_threads(talk);
    step("a communicator for each thread");
    use_own = 1;
    in_threads(talk);
    step("collectives in threads");
    in_threads(reduce);
    for (int i = 0; i < thread_count; ++i)
        MPI_Comm_free(&own_communicator[i]);
    return end();
}
