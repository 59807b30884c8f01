/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Windows: put, get, accumulate and their kin, under fences, post-start-complete-wait and locks.
 * Any number of ranks from two.
 *
 *   one_sided [here]
 *
 * `here`: all ranks share a host. Then there are windows of shared memory too, and dynamic ones:
 * these never end between hosts before Open MPI 4.1.5, whose osc/rdma wants a lock there that it
 * already holds (its issue 10328).
 */
#include "check.h"

enum { bytes_in_window = 2 * 1024 * 1024 };

static char* window_memory;
static MPI_Win window;

static const size_t sizes[] = {1, 8, 13, 64, 1000, 4096, 5000, 65536, 100001, 1048576};
enum { size_count = sizeof sizes / sizeof *sizes };

static int right(void) {
    return (rank + 1) % ranks;
}
static int left(void) {
    return (rank + ranks - 1) % ranks;
}

static void fences(void) {
    step("put and get between fences");
    char* const own = take_memory(sizes[size_count - 1]);
    for (int i = 0; i < size_count; ++i) {
        fill(own, sizes[i], (uint64_t)(i * 100 + rank));
        MPI_Win_fence(0, window);
        MPI_Put(own, (int)sizes[i], MPI_BYTE, right(), 64, (int)sizes[i], MPI_BYTE, window);
        MPI_Win_fence(0, window);
        CHECK_BYTES(window_memory + 64, sizes[i], (uint64_t)(i * 100 + left()));
        MPI_Win_fence(0, window);
        memset(own, 0, sizes[i]);
        MPI_Get(own, (int)sizes[i], MPI_BYTE, left(), 64, (int)sizes[i], MPI_BYTE, window);
        MPI_Win_fence(0, window);
        CHECK_BYTES(own, sizes[i], (uint64_t)(i * 100 + (rank + 2 * ranks - 2) % ranks));
    }
    free(own);
}

static void accumulates(void) {
    step("accumulate");
    enum { count = 2000 };
    long* const values = (long*)window_memory;
    long own[count];
    MPI_Win_fence(0, window);
    for (int i = 0; i < count; ++i) {
        values[i] = 0;
        own[i] = (long)(rank + 1) * (i + 1);
    }
    MPI_Win_fence(0, window);
    for (int to = 0; to < ranks; ++to)
        MPI_Accumulate(own, count, MPI_LONG, to, 0, count, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < count; ++i)
        CHECK_EQUAL(values[i], (long)ranks * (ranks + 1) / 2 * (i + 1));
    MPI_Win_fence(0, window);
    for (int to = 0; to < ranks; ++to)
        MPI_Accumulate(own, count, MPI_LONG, to, 0, count, MPI_LONG, MPI_MAX, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < count; ++i) {
        const long sum = (long)ranks * (ranks + 1) / 2 * (i + 1);
        const long most = (long)ranks * (i + 1);
        CHECK_EQUAL(values[i], sum > most ? sum : most);
    }

    step("get and accumulate");
    double* const doubles = (double*)window_memory;
    double in[100];
    double before[100];
    MPI_Win_fence(0, window);
    for (int i = 0; i < 100; ++i) {
        doubles[i] = 0.5 * i;
        in[i] = rank + 1;
    }
    MPI_Win_fence(0, window);
    MPI_Get_accumulate(in, 100, MPI_DOUBLE, before, 100, MPI_DOUBLE, right(), 0, 100, MPI_DOUBLE,
                       MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 100; ++i) {
        CHECK(before[i] == 0.5 * i);
        CHECK(doubles[i] == 0.5 * i + left() + 1);
    }
    MPI_Win_fence(0, window);
}

static void turns(void) {
    step("post, start, complete, wait");
    MPI_Group all;
    MPI_Group targets;
    MPI_Group origins;
    const int to = right();
    const int from = left();
    char* const own = take_memory(bytes_in_window);
    MPI_Win_get_group(window, &all);
    MPI_Group_incl(all, 1, &to, &targets);
    MPI_Group_incl(all, 1, &from, &origins);
    for (int i = 0; i < 30; ++i) {
        const size_t bytes = sizes[i % size_count];
        fill(own, bytes, (uint64_t)(i * 50 + rank));
        MPI_Win_post(origins, 0, window);
        MPI_Win_start(targets, 0, window);
        MPI_Put(own, (int)bytes, MPI_BYTE, to, 8, (int)bytes, MPI_BYTE, window);
        MPI_Win_complete(window);
        if (i % 2) {
            MPI_Win_wait(window);
        } else {
            int done = 0;
            while (!done)
                MPI_Win_test(window, &done);
        }
        CHECK_BYTES(window_memory + 8, bytes, (uint64_t)(i * 50 + from));
    }
    MPI_Group_free(&all);
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
    free(own);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All ranks count up one number of rank 0, and none is counted twice. */
static void counters(void) {
    step("fetch and add under a lock");
    enum { times = 300 };
    long* const counter = (long*)window_memory;
    char* const seen = take_memory((size_t)(times * ranks));
    memset(seen, 0, (size_t)(times * ranks));
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    counter[0] = counter[1] = 0;
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < times; ++i) {
        const long one = 1;
        long before = -1;
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        CHECK(before >= 0 && before < (long)times * ranks);
        CHECK(!seen[before]);
        seen[before] = 1;
    }
    MPI_Win_unlock_all(window);
    MPI_Allreduce(MPI_IN_PLACE, seen, times * ranks, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    for (int i = 0; i < times * ranks; ++i)
        CHECK(seen[i]);

    free(seen);
}

/* Not by rank 0 itself and not in memory that MPI has allocated: there Open MPI's osc/rdma follows
 * a null pointer when the two ranks share a host (its issue 9146). */
static void swaps(void) {
    step("compare and swap");
    int won = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    ((long*)window_memory)[1] = 0;
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < 100; ++i) {
        /* Everybody else tries to raise the second number of rank 0 from i to i + 1. */
        const long from = i;
        const long to = i + 1;
        long before = -1;
        if (rank != 0) {
            MPI_Compare_and_swap(&to, &from, &before, MPI_LONG, 0, 8, window);
            MPI_Win_flush(0, window);
        }
        if (before == from) ++won;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(window);
    MPI_Allreduce(MPI_IN_PLACE, &won, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(won, 100);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void locks(void) {
    step("exclusive locks");
    enum { times = 60 };
    long* const values = (long*)window_memory;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    values[0] = values[1] = 0;
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < times; ++i) {
        /* Read, change, write: only a lock makes this whole. */
        long pair[2] = {-1, -1};
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Get(pair, 2, MPI_LONG, 0, 0, 2, MPI_LONG, window);
        MPI_Win_flush(0, window);
        CHECK_EQUAL(pair[0], pair[1]);
        ++pair[0];
        ++pair[1];
        MPI_Put(&pair[0], 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
        MPI_Put(&pair[1], 1, MPI_LONG, 0, 8, 1, MPI_LONG, window);
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long result = 0;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(&result, 1, MPI_LONG, 0, 0, 1, MPI_LONG, window);
    MPI_Win_unlock(0, window);
    CHECK_EQUAL(result, (long)times * ranks);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void requests(void) {
    step("put and get with requests");
    enum { count = 16, each = 3000 };
    MPI_Request list[count];
    char* const own = take_memory(count * each);
    char* const back = take_memory(count * each);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < count; ++i) {
        fill(own + i * each, each, (uint64_t)(rank * 100 + i));
        MPI_Rput(own + i * each, each, MPI_BYTE, right(), i * each, each, MPI_BYTE, window,
                 &list[i]);
    }
    MPI_Waitall(count, list, MPI_STATUSES_IGNORE);
    MPI_Win_flush_all(window);
    for (int i = 0; i < count; ++i)
        MPI_Rget(back + i * each, each, MPI_BYTE, right(), i * each, each, MPI_BYTE, window,
                 &list[i]);
    MPI_Waitall(count, list, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; ++i)
        CHECK_BYTES(back + i * each, each, (uint64_t)(rank * 100 + i));
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    free(own);
    free(back);
}

/* Every second long of the target. */
static void gaps(void) {
    step("put with gaps");
    enum { count = 500 };
    MPI_Datatype every_second;
    long own[count];
    long* const values = (long*)window_memory;
    MPI_Type_vector(count, 1, 2, MPI_LONG, &every_second);
    MPI_Type_commit(&every_second);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 2 * count; ++i)
        values[i] = -5;
    for (int i = 0; i < count; ++i)
        own[i] = rank * 10000 + i;
    MPI_Win_fence(0, window);
    MPI_Put(own, count, MPI_LONG, right(), 0, 1, every_second, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < count; ++i) {
        CHECK_EQUAL(values[2 * i], left() * 10000 + i);
        CHECK_EQUAL(values[2 * i + 1], -5);
    }
    MPI_Win_fence(0, window);
    MPI_Type_free(&every_second);
}

static void everything(const char* kind) {
    if (rank == 0 && getenv("MPI_TEST_VERBOSE") != NULL) fprintf(stderr, " %s\n", kind);
    memset(window_memory, 0, bytes_in_window);
    MPI_Barrier(MPI_COMM_WORLD);
    fences();
    accumulates();
    turns();
    counters();
    locks();
    requests();
    gaps();
}

static void dynamic_window(void) {
    step("a dynamic window");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    long* const value = take_memory(1000 * sizeof(long));
    MPI_Aint place;
    MPI_Aint right_place;
    for (int i = 0; i < 1000; ++i)
        value[i] = -1;
    MPI_Win_attach(window, value, 1000 * (MPI_Aint)sizeof(long));
    MPI_Get_address(value, &place);
    MPI_Sendrecv(&place, 1, MPI_AINT, left(), 0, &right_place, 1, MPI_AINT, right(), 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_lock_all(0, window);
    const long own = 1000 + rank;
    MPI_Put(&own, 1, MPI_LONG, right(), right_place + 80, 1, MPI_LONG, window);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(value[10], 1000 + left());
    MPI_Win_detach(window, value);
    MPI_Win_free(&window);
    free(value);
}

static void shared_window(void) {
    step("a window of shared memory");
    long* memory = NULL;
    MPI_Win_allocate_shared(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(0, window);
    memory[0] = rank;
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    MPI_Aint size = 0;
    int unit = 0;
    long* there = NULL;
    MPI_Win_shared_query(window, right(), &size, &unit, &there);
    CHECK_EQUAL(there[0], right());
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "one_sided");
    if (ranks < 2) FAIL("this is for two ranks or more");
    const int one_host = argc > 1 && strcmp(argv[1], "here") == 0;

    window_memory = take_memory(bytes_in_window);
    MPI_Win_create(window_memory, bytes_in_window, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    everything("MPI_Win_create");
    swaps();
    MPI_Win_free(&window);
    free(window_memory);

    MPI_Win_allocate(bytes_in_window, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory, &window);
    everything("MPI_Win_allocate");
    MPI_Win_free(&window);

    if (one_host) {
        dynamic_window();
        shared_window();
    }
    return end();
}
