/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronous sends: none is done before a receive has taken it, however it is taken. Between two
 * ranks.
 */
#include "check.h"

enum { sizes = 5, rounds = 20 };
static const int bytes_of[sizes] = {0, 1, 1000, 5000, 1000000};
static char sent[1000000];
static char received[1000000];

/* Rank 1 says that it is about to receive; before that the send must not be done. */
static void send_one(int bytes, int round) {
    MPI_Request request;
    int done = 0;
    char word = 0;
    fill(sent, (size_t)bytes, (uint64_t)(bytes + round));
    MPI_Issend(sent, bytes, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request);
    for (int i = 0; i < 1000 && !done; ++i)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    CHECK(!done);
    MPI_Send(&word, 1, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive_one(int bytes, int round) {
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    char word = 0;
    int flag = 0;
    MPI_Recv(&word, 1, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    switch (round % 4) {
        case 0:
            MPI_Recv(received, bytes, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case 1:
            MPI_Mprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &message, &status);
            CHECK_EQUAL(status.MPI_SOURCE, 0);
            MPI_Mrecv(received, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
            break;
        case 2:
            while (!flag)
                MPI_Improbe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
            CHECK_EQUAL(status.MPI_TAG, 7);
            MPI_Imrecv(received, bytes, MPI_BYTE, &message, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        default:
            MPI_Probe(0, 7, MPI_COMM_WORLD, &status);
            MPI_Irecv(received, bytes, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
    }
    CHECK_EQUAL(first_wrong(received, (size_t)bytes, (uint64_t)(bytes + round)), -1);
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "synchronous");
    if (ranks != 2) FAIL("this is for two ranks");
    step("sends that wait for their receive");
    for (int i = 0; i < sizes; ++i)
        for (int round = 0; round < rounds; ++round) {
            if (rank == 0)
                send_one(bytes_of[i], round);
            else
                receive_one(bytes_of[i], round);
        }
    return end();
}
