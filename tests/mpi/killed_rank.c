/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that do one thing for ever, until one of them is killed:
 *
 *   killed_rank FOLDER mixed|eager|rendezvous|barrier [VICTIM]
 *
 * Each writes its process number into FOLDER/rank-N when all have done it for a while. A rank whose
 * MPI tells it of an error says so in FOLDER/error-N and ends. The VICTIM of a barrier stays out of
 * the last one.
 */
#include "check.h"

static const char* folder;
static char* out;
static char* in;

static void write_note(const char* name, const char* text) {
    char path[1000];
    char final[1000];
    snprintf(path, sizeof path, "%s/%s-%d.new", folder, name, rank);
    snprintf(final, sizeof final, "%s/%s-%d", folder, name, rank);
    FILE* const file = fopen(path, "w");
    if (file == NULL) FAIL("can not write %s", path);
    fprintf(file, "%s\n", text);
    fclose(file);
    if (rename(path, final) != 0) FAIL("can not rename %s", path);
}

static int exchange(int bytes) {
    const int to = (rank + 1) % ranks;
    const int from = (rank + ranks - 1) % ranks;
    return MPI_Sendrecv(out, bytes, MPI_BYTE, to, 1, in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "killed_rank");
    enum { large = 4 * 1024 * 1024 };
    if (argc < 3) FAIL("a folder and what to do are missing");
    folder = argv[1];
    const char* const what = argv[2];
    const int victim = argc > 3 ? atoi(argv[3]) : -1;
    out = take_memory(large);
    in = take_memory(large);
    memset(out, rank, large);
    if (getenv("MPI_TEST_ERRORS") != NULL)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int result = MPI_SUCCESS;
    for (long round = 0; result == MPI_SUCCESS; ++round) {
        if (round == 20) {
            MPI_Barrier(MPI_COMM_WORLD);
            char text[20];
            snprintf(text, sizeof text, "%d", (int)getpid());
            write_note("rank", text);
            while (rank == victim && strcmp(what, "barrier") == 0)
                pause();
        }
        if (strcmp(what, "barrier") == 0)
            result = MPI_Barrier(MPI_COMM_WORLD);
        else if (strcmp(what, "eager") == 0)
            result = exchange(round % 2 ? 100 : 4000);
        else if (strcmp(what, "rendezvous") == 0)
            result = exchange(large);
        else
            result = exchange(round % 4 == 0 ? large : round % 4 == 1 ? 20000 : 100);
    }
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(result, text, &length);
    write_note("error", text);
    _exit(9);
}
