/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two MPI ranks, pinned: median one-way time of round trips, or the rate of a stream.
 *
 *   pingpong latency CORE,CORE SECONDS BYTES...   prints "BYTES MICROSECONDS" a line
 *   pingpong rate    CORE,CORE SECONDS BYTES...   prints "BYTES MESSAGES_PER_SECOND" a line
 *
 * SECONDS is about how long each size is measured. The stream keeps 64 messages under way and
 * waits for a word of the receiver after each 64, as MPI bandwidth tests do.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { window = 64, max_rounds = 1000000, warm_up = 100 };

static int compare(const void* left, const void* right) {
    const double a = *(const double*)left;
    const double b = *(const double*)right;
    return (a > b) - (a < b);
}

static void fail(const char* why) {
    fprintf(stderr, "pingpong: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static double clamp(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

static void round_trip(int rank, char* buffer, int bytes) {
    if (rank == 0) {
        MPI_Send(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

static void stream_round(int rank, char* buffer, int bytes) {
    MPI_Request requests[window];
    MPI_Status statuses[window];
    char word = 0;
    for (int i = 0; i < window; ++i) {
        if (rank == 0) {
            MPI_Isend(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(window, requests, statuses);
    if (rank == 0) {
        MPI_Recv(&word, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&word, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
}

int main(int argc, char** argv) {
    int rank = 0;
    int ranks = 0;
    int core[2] = {0, 1};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) fail("needs two ranks");
    if (argc < 5) fail("usage: pingpong latency|rate CORE,CORE SECONDS BYTES...");
    const int is_rate = strcmp(argv[1], "rate") == 0;
    if (!is_rate && strcmp(argv[1], "latency") != 0) fail("say latency or rate");
    if (sscanf(argv[2], "%d,%d", &core[0], &core[1]) != 2) fail("say two cores, such as 0,1");
    const double seconds = atof(argv[3]);

    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)core[rank], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) fail("can not use the chosen core");

    double* times = malloc(max_rounds * sizeof *times);
    if (times == NULL) fail("out of memory");
    for (int argument = 4; argument < argc; ++argument) {
        const int bytes = atoi(argv[argument]);
        if (bytes <= 0) fail("a size must be a positive number of bytes");
        char* buffer = malloc((size_t)bytes);
        if (buffer == NULL) fail("out of memory");
        memset(buffer, rank, (size_t)bytes);
        void (*round)(int, char*, int) = is_rate ? stream_round : round_trip;

        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        const int warm_up_rounds = is_rate ? warm_up / 10 : warm_up;
        for (int i = 0; i < warm_up_rounds; ++i)
            round(rank, buffer, bytes);
        const double each = (MPI_Wtime() - begin) / warm_up_rounds;
        int rounds = (int)clamp(seconds / each, 20, max_rounds);
        MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);

        MPI_Barrier(MPI_COMM_WORLD);
        double last = begin = MPI_Wtime();
        for (int i = 0; i < rounds; ++i) {
            round(rank, buffer, bytes);
            const double now = MPI_Wtime();
            times[i] = now - last;
            last = now;
        }
        if (rank == 0 && is_rate) {
            printf("%d %.6g\n", bytes, (double)rounds * window / (last - begin));
        } else if (rank == 0) {
            qsort(times, (size_t)rounds, sizeof *times, compare);
            printf("%d %.6g\n", bytes, times[rounds / 2] / 2 * 1e6);
        }
        free(buffer);
    }
    free(times);
    MPI_Finalize();
    return 0;
}
