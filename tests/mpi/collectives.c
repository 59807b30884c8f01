/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives, against what each rank computes for itself. Any number of ranks. */
#include "check.h"

static int* number_of(int who, int count, int salt) {
    int* const values = take_memory((size_t)count * sizeof(int));
    for (int i = 0; i < count; ++i)
        values[i] = (who + 1) * 1000003 + i * 7 + salt;
    return values;
}

static void check_numbers(const int* values, int who, int count, int salt) {
    for (int i = 0; i < count; ++i)
        CHECK_EQUAL(values[i], (who + 1) * 1000003 + i * 7 + salt);
}

static const int counts[] = {1, 2, 3, 100, 1000, 10000, 100000, 500000};
enum { count_count = sizeof counts / sizeof *counts };

static void broadcast_and_reduce(int count, int root) {
    const long all = (long)ranks * (ranks + 1) / 2;
    int* const mine = number_of(rank, count, 0);
    int* const out = take_memory((size_t)count * sizeof(int));

    step("MPI_Bcast");
    memcpy(out, mine, (size_t)count * sizeof(int));
    MPI_Bcast(out, count, MPI_INT, root, MPI_COMM_WORLD);
    check_numbers(out, root, count, 0);

    step("MPI_Allreduce, sum");
    long* const wide = take_memory((size_t)count * sizeof(long));
    long* const sum = take_memory((size_t)count * sizeof(long));
    for (int i = 0; i < count; ++i)
        wide[i] = (long)(rank + 1) * (i + 1);
    MPI_Allreduce(wide, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
        CHECK_EQUAL(sum[i], all * (i + 1));
    MPI_Allreduce(MPI_IN_PLACE, wide, count, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
        CHECK_EQUAL(wide[i], (long)ranks * (i + 1));

    step("MPI_Reduce, minimum");
    memset(out, 0, (size_t)count * sizeof(int));
    MPI_Reduce(mine, out, count, MPI_INT, MPI_MIN, root, MPI_COMM_WORLD);
    if (rank == root) check_numbers(out, 0, count, 0);

    step("MPI_Scan and MPI_Exscan");
    for (int i = 0; i < count; ++i)
        wide[i] = rank + 1 + i;
    MPI_Scan(wide, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
        CHECK_EQUAL(sum[i], (long)(rank + 1) * (rank + 2) / 2 + (long)(rank + 1) * i);
    MPI_Exscan(wide, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count && rank > 0; ++i)
        CHECK_EQUAL(sum[i], (long)rank * (rank + 1) / 2 + (long)rank * i);
    free(wide);
    free(sum);
    free(mine);
    free(out);
}

static void gather_and_scatter(int count, int root) {
    const size_t all = (size_t)count * (size_t)ranks;
    int* const mine = number_of(rank, count, 1);
    int* const whole = take_memory(all * sizeof(int));
    step("MPI_Allgather");
    memset(whole, 0, all * sizeof(int));
    MPI_Allgather(mine, count, MPI_INT, whole, count, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; ++i)
        check_numbers(whole + (size_t)i * (size_t)count, i, count, 1);
    step("MPI_Gather");
    memset(whole, 0, all * sizeof(int));
    MPI_Gather(mine, count, MPI_INT, whole, count, MPI_INT, root, MPI_COMM_WORLD);
    for (int i = 0; i < ranks && rank == root; ++i)
        check_numbers(whole + (size_t)i * (size_t)count, i, count, 1);
    step("MPI_Scatter");
    memset(mine, 0, (size_t)count * sizeof(int));
    MPI_Scatter(whole, count, MPI_INT, mine, count, MPI_INT, root, MPI_COMM_WORLD);
    check_numbers(mine, rank, count, 1);

    step("MPI_Alltoall");
    int* const to_all = take_memory(all * sizeof(int));
    for (int i = 0; i < ranks; ++i) {
        int* const part = number_of(rank, count, i * 11);
        memcpy(to_all + (size_t)i * (size_t)count, part, (size_t)count * sizeof(int));
        free(part);
    }
    MPI_Alltoall(to_all, count, MPI_INT, whole, count, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; ++i)
        check_numbers(whole + (size_t)i * (size_t)count, i, count, rank * 11);

    step("MPI_Reduce_scatter_block");
    long* const in = take_memory(all * sizeof(long));
    long* const out = take_memory((size_t)count * sizeof(long));
    for (size_t i = 0; i < all; ++i)
        in[i] = (long)(rank + 1) * (long)(i + 1);
    MPI_Reduce_scatter_block(in, out, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i)
        CHECK_EQUAL(out[i], (long)ranks * (ranks + 1) / 2 * ((long)rank * count + i + 1));
    free(in);
    free(out);
    free(to_all);
    free(whole);
    free(mine);
}

/* Every rank sends rank + to + 1 pieces to each. */
static void uneven(int piece) {
    step("MPI_Alltoallv and MPI_Allgatherv");
    int* const send_counts = take_memory((size_t)ranks * sizeof(int));
    int* const receive_counts = take_memory((size_t)ranks * sizeof(int));
    int* const send_places = take_memory((size_t)ranks * sizeof(int));
    int* const receive_places = take_memory((size_t)ranks * sizeof(int));
    int sent = 0;
    int received = 0;
    for (int i = 0; i < ranks; ++i) {
        send_counts[i] = (rank + i) % 3 == 0 ? 0 : (rank + i + 1) * piece;
        receive_counts[i] = (rank + i) % 3 == 0 ? 0 : (i + rank + 1) * piece;
        send_places[i] = sent;
        receive_places[i] = received;
        sent += send_counts[i];
        received += receive_counts[i];
    }
    char* const out = take_memory((size_t)sent);
    char* const in = take_memory((size_t)received);
    for (int i = 0; i < ranks; ++i)
        fill(out + send_places[i], (size_t)send_counts[i], (uint64_t)(rank * 1000 + i));
    MPI_Alltoallv(out, send_counts, send_places, MPI_BYTE, in, receive_counts, receive_places,
                  MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; ++i)
        CHECK_BYTES(in + receive_places[i], (size_t)receive_counts[i], (uint64_t)(i * 1000 + rank));
    free(out);
    free(in);

    received = 0;
    for (int i = 0; i < ranks; ++i) {
        receive_counts[i] = i * piece;
        receive_places[i] = received;
        received += receive_counts[i];
    }
    char* const own = take_memory((size_t)(rank * piece));
    char* const all = take_memory((size_t)received);
    fill(own, (size_t)(rank * piece), (uint64_t)rank);
    MPI_Allgatherv(own, rank * piece, MPI_BYTE, all, receive_counts, receive_places, MPI_BYTE,
                   MPI_COMM_WORLD);
    for (int i = 0; i < ranks; ++i)
        CHECK_BYTES(all + receive_places[i], (size_t)receive_counts[i], (uint64_t)i);
    free(own);
    free(all);
    free(send_counts);
    free(receive_counts);
    free(send_places);
    free(receive_places);
}

/* Several at once, finished in another order than begun. */
static void several_at_once(void) {
    step("collectives that do not wait");
    enum { depth = 8, length = 3000 };
    MPI_Request requests[depth + 2];
    long* in[depth];
    long* out[depth];
    int from_root = rank == ranks - 1 ? 4711 : 0;
    for (int i = 0; i < depth; ++i) {
        in[i] = take_memory(length * sizeof(long));
        out[i] = take_memory(length * sizeof(long));
        for (int k = 0; k < length; ++k)
            in[i][k] = rank + i + k;
        MPI_Iallreduce(in[i], out[i], length, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Ibcast(&from_root, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD, &requests[depth]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[depth + 1]);
    for (int i = depth + 1; i >= 0; --i)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    CHECK_EQUAL(from_root, 4711);
    for (int i = 0; i < depth; ++i) {
        for (int k = 0; k < length; ++k)
            CHECK_EQUAL(out[i][k], (long)ranks * (ranks - 1) / 2 + (long)ranks * (i + k));
        free(in[i]);
        free(out[i]);
    }
}

static void add_modulo(void* in, void* inout, int* length, MPI_Datatype* type) {
    int* const values = inout;
    (void)type;
    for (int i = 0; i < *length; ++i)
        values[i] = (values[i] * 3 + ((int*)in)[i]) % 10007;
}

/* An operation that does not commute must be applied in the order of the ranks. */
static void own_operation(void) {
    step("an operation of the program's own");
    MPI_Op operation;
    enum { length = 5 };
    int in[length];
    int out[length];
    MPI_Op_create(add_modulo, 0, &operation);
    for (int i = 0; i < length; ++i)
        in[i] = rank + i;
    MPI_Allreduce(in, out, length, MPI_INT, operation, MPI_COMM_WORLD);
    for (int i = 0; i < length; ++i) {
        /* Associative it is not, either, so two or three ranks have one result each. */
        if (ranks == 2) CHECK_EQUAL(out[i], ((1 + i) * 3 + i) % 10007);
    }
    MPI_Op_free(&operation);
}

/* Nobody leaves a barrier before the last has come. */
static void barriers(void) {
    step("MPI_Barrier");
    for (int i = 0; i < 200; ++i) {
        int passed = -1;
        const int late = i % ranks;
        if (rank == late) {
            for (int to = 0; to < ranks; ++to)
                if (to != late) MPI_Send(&i, 1, MPI_INT, to, 6, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != late) {
            /* Sent before the barrier, so it is on its way at the latest now. */
            MPI_Recv(&passed, 1, MPI_INT, late, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_EQUAL(passed, i);
        }
    }
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "collectives");
    const int large = argc > 1 ? atoi(argv[1]) : counts[count_count - 1];
    for (int i = 0; i < count_count && counts[i] <= large; ++i) {
        broadcast_and_reduce(counts[i], i % ranks);
        gather_and_scatter(counts[i] / ranks + 1, (i + 1) % ranks);
    }
    for (int piece = 1; piece <= 100000; piece *= 10)
        uneven(piece);
    several_at_once();
    own_operation();
    barriers();
    return end();
}
