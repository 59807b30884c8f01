/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random messages between all ranks, with every byte looked at:
 *
 *   random_traffic [SECONDS [SEED [LARGEST]]]     (5 s, a new seed, 16 MB)
 *
 * All ranks draw the same plan of a round from the seed: who sends what to whom, in which mode, and
 * how it is received. Each way to receive has a communicator of its own, so that it is known what
 * must arrive: exactly named; any source; any tag, in the order of the sender; anything; by probe;
 * and named, but cancelled and asked for again. Between rounds there are collectives. The same seed
 * makes the same plan; the order of events is the machine's.
 */
#include <time.h>

#include "check.h"

enum Way { Exact, AnySource, AnyTag, Anything, Probed, Cancelled, way_count };
enum { most_messages = 64, most_in_round = 48 * 1024 * 1024 };

struct Message {
    int from;
    int to;
    int tag;
    int mode;
    enum Way way;
    size_t bytes;
    uint64_t content;
    char* memory;       /* of the receiver, or of the sender */
    char* other_memory; /* of the receiver, if it is the sender too */
    int arrived;
    MPI_Request send;
    MPI_Request receive;
};

static MPI_Comm communicators[way_count];
static size_t largest = 16 * 1024 * 1024;
static unsigned long long total_messages;
static unsigned long long total_bytes;

static size_t draw_size(uint64_t* state) {
    const size_t limits[] = {16, 16, 300, 5000, 5000, 20000, 70000, 400000, 1500000, largest};
    const uint64_t which = below(state, 40);
    size_t limit = limits[which < 10 ? which : which % 7];
    /* The very large ones are rare, or nothing else would be seen. */
    if (which == 9 && below(state, 4) != 0) limit = 1000;
    if (limit > largest) limit = largest;
    if (below(state, 16) == 0) return 0;
    return (size_t)below(state, limit) + 1;
}

static int draw_round(uint64_t* state, struct Message* plan) {
    const int count = 1 + (int)below(state, most_messages - 1);
    size_t together = 0;
    for (int i = 0; i < count; ++i) {
        struct Message* const message = &plan[i];
        memset(message, 0, sizeof *message);
        message->from = (int)below(state, (uint64_t)ranks);
        message->to = (int)below(state, (uint64_t)ranks);
        message->way = (enum Way)below(state, way_count);
        message->mode = (int)below(state, 4);
        message->bytes = draw_size(state);
        if (together + message->bytes > most_in_round) message->bytes %= 1000;
        together += message->bytes;
        message->content = next_random(state);
        /* Exactly named messages share tags, so that their order is seen too. */
        message->tag = message->way == Exact ? (int)below(state, 3) : i;
        message->send = message->receive = MPI_REQUEST_NULL;
    }
    return count;
}

static void post_send(struct Message* message) {
    const int bytes = (int)message->bytes;
    MPI_Comm communicator = communicators[message->way];
    char* const memory = take_memory(message->bytes);
    fill(memory, message->bytes, message->content);
    message->memory = memory;
    /* Open MPI before 5.0 never answers a synchronous send that a matched probe takes over
     * libfabric (its pull request 11327). */
    if (message->mode == 0 && message->way != Probed)
        MPI_Issend(memory, bytes, MPI_BYTE, message->to, message->tag, communicator,
                   &message->send);
    else
        MPI_Isend(memory, bytes, MPI_BYTE, message->to, message->tag, communicator, &message->send);
}

static char** receive_memory(struct Message* message) {
    return message->from == rank ? &message->other_memory : &message->memory;
}

/* How much room a receive of anything needs: any of them may come first. */
static size_t most_of(const struct Message* plan, int count, enum Way way) {
    size_t most = 0;
    for (int i = 0; i < count; ++i)
        if (plan[i].to == rank && plan[i].way == way && plan[i].bytes > most) most = plan[i].bytes;
    return most;
}

static void post_receive(struct Message* plan, int count, struct Message* message) {
    const size_t room = message->way == Anything ? most_of(plan, count, Anything) : message->bytes;
    char* const memory = take_memory(room);
    MPI_Comm communicator = communicators[message->way];
    *receive_memory(message) = memory;
    memset(memory, 0xee, room);
    const int source =
        message->way == AnySource || message->way == Anything ? MPI_ANY_SOURCE : message->from;
    const int tag = message->way == AnyTag || message->way == Anything ? MPI_ANY_TAG : message->tag;
    MPI_Irecv(memory, (int)room, MPI_BYTE, source, tag, communicator, &message->receive);
    if (message->way == Cancelled && message->mode != 1) MPI_Cancel(&message->receive);
}

static void check_arrival(const struct Message* message, const MPI_Status* status,
                          const char* memory) {
    int got = -1;
    MPI_Get_count(status, MPI_BYTE, &got);
    if (status->MPI_SOURCE != message->from || status->MPI_TAG != message->tag ||
        (size_t)got != message->bytes)
        FAIL("way %d: %d bytes with tag %d from %d, not %zu with %d from %d", (int)message->way,
             got, status->MPI_TAG, status->MPI_SOURCE, message->bytes, message->tag, message->from);
    CHECK_BYTES(memory, message->bytes, message->content);
    ++total_messages;
    total_bytes += message->bytes;
}

/* Which message of the plan this is: by its tag, which no other has in this communicator. */
static struct Message* planned(struct Message* plan, int count, enum Way way,
                               const MPI_Status* status) {
    const int index = status->MPI_TAG;
    if (index < 0 || index >= count || plan[index].way != way || plan[index].to != rank)
        FAIL("nobody sends tag %d to this rank in this round", index);
    if (plan[index].arrived) FAIL("message %d came twice", index);
    plan[index].arrived = 1;
    return &plan[index];
}

static void receive_by_probe(struct Message* plan, int count, uint64_t* own) {
    MPI_Comm communicator = communicators[Probed];
    MPI_Status status;
    MPI_Message handle = MPI_MESSAGE_NULL;
    int there = 0;
    int bytes = 0;
    const uint64_t how = below(own, 4);
    if (how == 0) MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &status);
    while (how == 1 && !there)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &there, &status);
    if (how == 2) MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &handle, &status);
    while (how == 3 && !there)
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator, &there, &handle, &status);
    const struct Message* const message = planned(plan, count, Probed, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    CHECK_EQUAL(bytes, message->bytes);
    char* const memory = take_memory((size_t)bytes);
    if (how < 2)
        MPI_Recv(memory, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, communicator, &status);
    else
        MPI_Mrecv(memory, bytes, MPI_BYTE, &handle, &status);
    check_arrival(message, &status, memory);
    free(memory);
}

/* Sends and receives in an order of this rank's own; those of one kind keep theirs. */
static void post_all(struct Message* plan, int count, uint64_t* own) {
    int sent = 0;
    int asked = 0;
    while (sent < count || asked < count) {
        if (asked == count || (sent < count && below(own, 2) == 0)) {
            if (plan[sent].from == rank) post_send(&plan[sent]);
            ++sent;
        } else {
            if (plan[asked].to == rank && plan[asked].way != Probed)
                post_receive(plan, count, &plan[asked]);
            ++asked;
        }
    }
}

static void finish(struct Message* plan, int count, uint64_t* own) {
    step("messages found by probe");
    for (int i = 0; i < count; ++i)
        if (plan[i].to == rank && plan[i].way == Probed) receive_by_probe(plan, count, own);
    step("messages that were asked for");
    for (int i = 0; i < count; ++i) {
        struct Message* const message = &plan[i];
        if (message->to != rank || message->way == Probed) continue;
        MPI_Status status;
        int cancelled = 0;
        char* const memory = *receive_memory(message);
        if (below(own, 3) == 0) {
            int done = 0;
            while (!done)
                MPI_Test(&message->receive, &done, &status);
        } else {
            MPI_Wait(&message->receive, &status);
        }
        if (message->way == Cancelled) MPI_Test_cancelled(&status, &cancelled);
        if (cancelled)
            MPI_Recv(memory, (int)message->bytes, MPI_BYTE, message->from, message->tag,
                     communicators[Cancelled], &status);
        check_arrival(message->way == Anything ? planned(plan, count, Anything, &status) : message,
                      &status, memory);
        free(memory);
    }
    step("own messages");
    for (int i = 0; i < count; ++i) {
        if (plan[i].from != rank) continue;
        MPI_Wait(&plan[i].send, MPI_STATUS_IGNORE);
        free(plan[i].memory);
    }
}

static void collective(uint64_t* state) {
    const uint64_t which = below(state, 5);
    const int root = (int)below(state, (uint64_t)ranks);
    const size_t bytes = draw_size(state) % 300000;
    const uint64_t content = next_random(state);
    step("a collective");
    if (which == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (which == 1) {
        char* const memory = take_memory(bytes);
        if (rank == root) fill(memory, bytes, content);
        MPI_Bcast(memory, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        CHECK_BYTES(memory, bytes, content);
        free(memory);
    } else if (which == 2) {
        const int count = (int)(bytes / 8 + 1);
        long* const in = take_memory((size_t)count * sizeof(long));
        long* const out = take_memory((size_t)count * sizeof(long));
        for (int i = 0; i < count; ++i)
            in[i] = rank * 3 + i;
        MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; ++i)
            CHECK_EQUAL(out[i], 3L * ranks * (ranks - 1) / 2 + (long)ranks * i);
        free(in);
        free(out);
    } else {
        char* const own = take_memory(bytes * (size_t)ranks);
        char* const all = take_memory(bytes * (size_t)ranks);
        for (int i = 0; i < ranks; ++i)
            fill(own + (size_t)i * bytes, bytes,
                 content + (uint64_t)(which == 3 ? rank : rank * 100 + i));
        if (which == 3)
            MPI_Allgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
        else
            MPI_Alltoall(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
        for (int i = 0; i < ranks; ++i)
            CHECK_BYTES(all + (size_t)i * bytes, bytes,
                        content + (uint64_t)(which == 3 ? i : i * 100 + rank));
        free(own);
        free(all);
    }
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "random_traffic");
    const double seconds = argc > 1 ? atof(argv[1]) : 5;
    uint64_t seed =
        argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
    if (argc > 3) largest = (size_t)strtoull(argv[3], NULL, 0);
    MPI_Bcast(&seed, sizeof seed, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("random_traffic: seed %llu\n", (unsigned long long)seed);
        fflush(stdout);
    }
    uint64_t state = seed;
    uint64_t own = seed ^ ((uint64_t)(rank + 1) << 32);
    for (int way = 0; way < way_count; ++way)
        MPI_Comm_dup(MPI_COMM_WORLD, &communicators[way]);
    const double until = MPI_Wtime() + seconds;
    unsigned long rounds = 0;
    for (int more = 1; more; ++rounds) {
        static struct Message plan[most_messages];
        const int count = draw_round(&state, plan);
        step("posting");
        post_all(plan, count, &own);
        finish(plan, count, &own);
        for (uint64_t i = below(&state, 3); i > 0; --i)
            collective(&state);
        more = MPI_Wtime() < until;
        step("going on or not");
        /* Also lets nobody begin a round while another still receives anything of the last. */
        MPI_Allreduce(MPI_IN_PLACE, &more, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    for (int way = 0; way < way_count; ++way)
        MPI_Comm_free(&communicators[way]);
    unsigned long long totals[2] = {total_messages, total_bytes};
    MPI_Allreduce(MPI_IN_PLACE, totals, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("random_traffic: %lu rounds, %llu messages, %llu bytes\n", rounds, totals[0],
               totals[1]);
    return end();
}
