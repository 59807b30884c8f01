/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that exchange messages for ever, until one of them is killed: killed_rank [FOLDER]. Each
 * writes its process number into FOLDER/rank-N when all have exchanged messages.
 */
#include "check.h"

int main(int argc, char** argv) {
    begin(&argc, &argv, "killed_rank");
    enum { large = 1024 * 1024 };
    const int to = (rank + 1) % ranks;
    const int from = (rank + ranks - 1) % ranks;
    char* const out = take_memory(large);
    char* const in = take_memory(large);
    memset(out, rank, large);
    for (long round = 0;; ++round) {
        const int bytes = round % 4 == 0 ? large : round % 4 == 1 ? 20000 : 100;
        MPI_Sendrecv(out, bytes, MPI_BYTE, to, 1, in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (round == 20) {
            MPI_Barrier(MPI_COMM_WORLD);
            char path[1000];
            snprintf(path, sizeof path, "%s/rank-%d.new", argc > 1 ? argv[1] : ".", rank);
            FILE* const file = fopen(path, "w");
            if (file == NULL) FAIL("can not write %s", path);
            fprintf(file, "%d\n", (int)getpid());
            fclose(file);
            char final[1000];
            snprintf(final, sizeof final, "%s/rank-%d", argc > 1 ? argv[1] : ".", rank);
            if (rename(path, final) != 0) FAIL("can not rename %s", path);
        }
    }
}
