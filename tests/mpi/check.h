/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the MPI programs of this folder have in common: they begin and end alike, say where they
 * were when they fail, never wait for ever, and know every byte that they expect.
 *
 * MPI_TEST_SECONDS: after how long a rank gives up (100).
 */
#ifndef VIA_TESTS_MPI_CHECK_H
#define VIA_TESTS_MPI_CHECK_H

#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank = -1;
static int ranks = 0;
static const char* program_name = "?";
static const char* volatile current_step = "the beginning";

static inline void say_and_abort(const char* file, int line, const char* format, ...) {
    va_list arguments;
    char text[512];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: rank %d, %s: %s:%d: %s\n", program_name, rank, current_step, file, line,
            text);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}

#define FAIL(...) say_and_abort(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                    \
    do {                                                    \
        if (!(condition)) FAIL("not true: %s", #condition); \
    } while (0)
#define CHECK_EQUAL(left, right)                                                       \
    do {                                                                               \
        const long long left_value = (long long)(left);                                \
        const long long right_value = (long long)(right);                              \
        if (left_value != right_value)                                                 \
            FAIL("%s is %lld, not %lld (%s)", #left, left_value, right_value, #right); \
    } while (0)

/* In a signal handler: no call but those that are allowed there. */
static inline void give_up(int number) {
    const char* const words[] = {program_name, ": no end in time; this rank was at: ", current_step,
                                 "\n"};
    (void)number;
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0) break;
    _exit(4);
}

static inline void step(const char* what) {
    current_step = what;
    if (getenv("MPI_TEST_VERBOSE") != NULL && rank == 0) fprintf(stderr, "  %s\n", what);
}

static inline void begin_at_level(int* argc, char*** argv, const char* name, int level) {
    const char* const seconds = getenv("MPI_TEST_SECONDS");
    int provided = 0;
    program_name = name;
    signal(SIGALRM, give_up);
    alarm(seconds != NULL ? (unsigned)atoi(seconds) : 100);
    MPI_Init_thread(argc, argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (provided < level) FAIL("this MPI gives thread level %d, not %d", provided, level);
}

static inline void begin(int* argc, char*** argv, const char* name) {
    begin_at_level(argc, argv, name, MPI_THREAD_SINGLE);
}

static inline int end(void) {
    step("the end");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s: good (%d ranks)\n", program_name, ranks);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

/* A generator that gives every rank the same numbers for the same seed. */
static inline uint64_t next_random(uint64_t* state) {
    uint64_t value = (*state += 0x9e3779b97f4a7c15U);
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

static inline uint64_t below(uint64_t* state, uint64_t limit) {
    return next_random(state) % limit;
}

static inline uint64_t pattern_word(uint64_t seed, size_t index) {
    const uint64_t value = (seed + index) * 0x9e3779b97f4a7c15U;
    return value ^ (value >> 29);
}

static inline void fill(void* memory, size_t bytes, uint64_t seed) {
    char* const to = memory;
    size_t index = 0;
    for (; (index + 1) * 8 <= bytes; ++index) {
        const uint64_t word = pattern_word(seed, index);
        memcpy(to + index * 8, &word, 8);
    }
    const uint64_t word = pattern_word(seed, index);
    memcpy(to + index * 8, &word, bytes - index * 8);
}

/* The number of the first byte that is wrong; -1: none is. */
static inline long first_wrong(const void* memory, size_t bytes, uint64_t seed) {
    const char* const from = memory;
    for (size_t index = 0; index * 8 < bytes; ++index) {
        const uint64_t word = pattern_word(seed, index);
        const size_t part = bytes - index * 8 < 8 ? bytes - index * 8 : 8;
        if (memcmp(from + index * 8, &word, part) == 0) continue;
        for (size_t byte = 0; byte < part; ++byte)
            if (from[index * 8 + byte] != ((const char*)&word)[byte])
                return (long)(index * 8 + byte);
    }
    return -1;
}

#define CHECK_BYTES(memory, bytes, seed)                                                  \
    do {                                                                                  \
        const long wrong_byte = first_wrong(memory, bytes, seed);                         \
        if (wrong_byte >= 0)                                                              \
            FAIL("byte %ld of %zu in %s is wrong", wrong_byte, (size_t)(bytes), #memory); \
    } while (0)

static inline void* take_memory(size_t bytes) {
    void* const memory = malloc(bytes == 0 ? 1 : bytes);
    if (memory == NULL) FAIL("no memory for %zu bytes", bytes);
    return memory;
}

#endif
