/* SPDX-License-Identifier: BSD-3-Clause */
/* A job that starts further ranks and talks with them: spawn [CHILDREN]. */
#include "check.h"

static void talk(MPI_Comm between, int others, int own) {
    /* Messages of all protocols, both ways, with everybody on the other side. */
    const size_t lengths[] = {0, 8, 3000, 70000, 1000000};
    for (int i = 0; i < 5; ++i) {
        for (int partner = 0; partner < others; ++partner) {
            char* const out = take_memory(lengths[i]);
            char* const in = take_memory(lengths[i]);
            fill(out, lengths[i], (uint64_t)(own * 100 + partner));
            MPI_Sendrecv(out, (int)lengths[i], MPI_BYTE, partner, i, in, (int)lengths[i], MPI_BYTE,
                         partner, i, between, MPI_STATUS_IGNORE);
            CHECK_BYTES(in, lengths[i], (uint64_t)(partner * 100 + own));
            free(out);
            free(in);
        }
    }
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "spawn");
    MPI_Comm parent;
    MPI_Comm merged;
    int others = 0;
    int all = 0;
    int sum = 0;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        step("the children's side");
        MPI_Comm_remote_size(parent, &others);
        talk(parent, others, rank);
        MPI_Intercomm_merge(parent, 1, &merged);
    } else {
        const int children = argc > 1 ? atoi(argv[1]) : 2;
        MPI_Comm between;
        int* const codes = take_memory(sizeof(int) * (size_t)children);
        step("spawning");
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between,
                       codes);
        for (int i = 0; i < children; ++i)
            CHECK_EQUAL(codes[i], MPI_SUCCESS);
        free(codes);
        step("the parents' side");
        MPI_Comm_remote_size(between, &others);
        CHECK_EQUAL(others, children);
        talk(between, others, rank);
        MPI_Intercomm_merge(between, 0, &merged);
        parent = between;
    }
    step("all together");
    int one = 1;
    MPI_Comm_size(merged, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK_EQUAL(sum, all);
    CHECK_EQUAL(all, ranks + others);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&parent);
    return end();
}
