/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each rank sends its number to the next one, and says whom it heard of. Nothing here knows
 * Viaduct:
 *
 *     mpicc -o hello hello.c && via run -n 2 ./hello
 */
#include <mpi.h>
#include <stdio.h>

int main(int count, char** words) {
    int rank, ranks, heard = -1;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, &heard, 1, MPI_INT,
                 (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d of %d heard of rank %d\n", rank, ranks, heard);
    MPI_Finalize();
    return heard == (rank + ranks - 1) % ranks ? 0 : 1;
}
