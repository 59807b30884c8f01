/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank uses of a processor while it waits in MPI_Recv: blocked SECONDS
 *
 * Rank 0 sleeps, then sends; rank 1 prints "1 PERCENT", of all of its threads.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static double used(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(int argc, char** argv) {
    int rank = 0;
    int word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    /* The connection is there before anything is measured. */
    for (int i = 0; i < 10; ++i) {
        if (rank == 0)
            MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0) {
        usleep((useconds_t)(seconds * 1e6));
        MPI_Send(&word, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
    } else {
        const double used_before = used();
        const double begin = MPI_Wtime();
        MPI_Recv(&word, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const double share = (used() - used_before) / (MPI_Wtime() - begin) * 100;
        printf("1 %.6g\n", share > 1e-4 ? share : 1e-4);
    }
    MPI_Finalize();
    return 0;
}
