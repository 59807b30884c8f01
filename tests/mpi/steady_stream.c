/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large messages between two ranks, in both directions and without a pause, until somebody makes
 * the file FOLDER/stop: steady_stream FOLDER. Every byte is looked at. FOLDER/rounds has as many
 * bytes as rounds have begun; a round is some messages each way, all under way at once. The first,
 * in which the connection is made, waits for the file FOLDER/go.
 */
#include <fcntl.h>

#include "check.h"

enum { megabyte = 1024 * 1024, most_messages = 4 };

int main(int argc, char** argv) {
    begin(&argc, &argv, "steady_stream");
    if (ranks != 2 || argc != 2) FAIL("this is for two ranks and a folder");
    char path[1000];
    snprintf(path, sizeof path, "%s/rounds", argv[1]);
    const int rounds = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (rounds < 0) FAIL("can not write %s", path);
    char go[1000];
    snprintf(go, sizeof go, "%s/go", argv[1]);
    snprintf(path, sizeof path, "%s/stop", argv[1]);
    const int peer = 1 - rank;
    char* out[most_messages];
    char* in[most_messages];
    for (int i = 0; i < most_messages; ++i) {
        out[i] = take_memory(4 * megabyte);
        in[i] = take_memory(4 * megabyte);
    }
    uint64_t state = 1;
    unsigned long long bytes_checked = 0;
    long round = 0;
    for (int more = 1; more; ++round) {
        MPI_Request requests[2 * most_messages];
        size_t bytes[2][most_messages];
        uint64_t content[2][most_messages];
        for (int from = 0; from < 2; ++from)
            for (int i = 0; i < most_messages; ++i) {
                bytes[from][i] = megabyte + (size_t)below(&state, 3 * megabyte);
                content[from][i] = next_random(&state);
            }
        for (int i = 0; i < most_messages; ++i) {
            fill(out[i], bytes[rank][i], content[rank][i]);
            memset(in[i], 0xee, bytes[peer][i]);
        }
        step("a round");
        if (rank == 0 && write(rounds, ".", 1) != 1) FAIL("can not count the rounds");
        while (round == 0 && access(go, F_OK) != 0)
            usleep(1000);
        for (int i = 0; i < most_messages; ++i) {
            MPI_Irecv(in[i], (int)bytes[peer][i], MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
            MPI_Isend(out[i], (int)bytes[rank][i], MPI_BYTE, peer, i, MPI_COMM_WORLD,
                      &requests[most_messages + i]);
        }
        MPI_Waitall(2 * most_messages, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < most_messages; ++i) {
            CHECK_BYTES(in[i], bytes[peer][i], content[peer][i]);
            bytes_checked += bytes[peer][i];
        }
        more = access(path, F_OK) != 0;
        step("going on or not");
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("steady_stream: %ld rounds, %llu bytes each way\n", round, bytes_checked);
    return end();
}
