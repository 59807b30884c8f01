/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks in a collective, pinned in turn to the given cores: mean time of one.
 *
 *   collective allreduce CORE,CORE SECONDS BYTES...   prints "BYTES MICROSECONDS" a line
 *   collective barrier   CORE,CORE SECONDS BYTES...   the same; BYTES only names the line
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char* why) {
    fprintf(stderr, "collective: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static void one(int is_barrier, const double* from, double* to, int count) {
    if (is_barrier)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        MPI_Allreduce(from, to, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
    int rank = 0;
    int core[2] = {0, 1};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 5) fail("usage: collective allreduce|barrier CORE,CORE SECONDS BYTES...");
    const int is_barrier = strcmp(argv[1], "barrier") == 0;
    if (!is_barrier && strcmp(argv[1], "allreduce") != 0) fail("say allreduce or barrier");
    if (sscanf(argv[2], "%d,%d", &core[0], &core[1]) != 2) fail("say two cores, such as 0,1");
    const double seconds = atof(argv[3]);

    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)core[rank % 2], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) fail("can not use the chosen core");

    for (int argument = 4; argument < argc; ++argument) {
        const int count = (atoi(argv[argument]) + 7) / 8;
        if (count <= 0) fail("a size must be a positive number of bytes");
        double* const from = calloc((size_t)count, sizeof *from);
        double* const to = calloc((size_t)count, sizeof *to);
        if (from == NULL || to == NULL) fail("out of memory");
        enum { warm_up = 20 };
        one(is_barrier, from, to, count);
        double begin = MPI_Wtime();
        for (int i = 0; i < warm_up; ++i)
            one(is_barrier, from, to, count);
        const double wanted = seconds / ((MPI_Wtime() - begin) / warm_up);
        int rounds = wanted < 20 ? 20 : wanted > 1e6 ? 1000000 : (int)wanted;
        MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        for (int i = 0; i < rounds; ++i)
            one(is_barrier, from, to, count);
        const double each = (MPI_Wtime() - begin) / rounds;
        if (rank == 0) printf("%s %.6g\n", argv[argument], each * 1e6);
        free(from);
        free(to);
    }
    MPI_Finalize();
    return 0;
}
