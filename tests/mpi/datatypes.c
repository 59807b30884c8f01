/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived datatypes: what lies in pieces arrives in the right pieces, and nothing else is touched.
 */
#include <stddef.h>

#include "check.h"

struct Record {
    char letter;
    double number;
    int list[3];
    short last;
};

static void columns(int rows) {
    step("columns of a matrix");
    const size_t cells = (size_t)rows * (size_t)rows;
    MPI_Datatype column;
    int* const matrix = take_memory(cells * sizeof(int));
    MPI_Type_vector(rows, 1, rows, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int way = 0; way < 3; ++way) {
        for (size_t i = 0; i < cells; ++i)
            matrix[i] = rank == 0 ? (int)i : -1;
        if (rank == 0) {
            /* In pieces to pieces, in pieces to one, in one to pieces. */
            if (way < 2) {
                MPI_Send(matrix + 2, 1, column, 1, way, MPI_COMM_WORLD);
            } else {
                int* const line = take_memory((size_t)rows * sizeof(int));
                for (int i = 0; i < rows; ++i)
                    line[i] = i * rows + 2;
                MPI_Ssend(line, rows, MPI_INT, 1, way, MPI_COMM_WORLD);
                free(line);
            }
        } else if (way == 1) {
            MPI_Recv(matrix, rows, MPI_INT, 0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < rows; ++i)
                CHECK_EQUAL(matrix[i], i * rows + 2);
        } else {
            MPI_Recv(matrix + 1, 1, column, 0, way, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < rows; ++i)
                for (int k = 0; k < rows; ++k)
                    CHECK_EQUAL(matrix[(size_t)i * (size_t)rows + (size_t)k],
                                k == 1 ? i * rows + 2 : -1);
        }
    }
    MPI_Type_free(&column);
    free(matrix);
}

static void records(int count) {
    step("records");
    struct Record* const list = take_memory((size_t)count * sizeof *list);
    const int lengths[] = {1, 1, 3};
    const MPI_Aint places[] = {offsetof(struct Record, letter), offsetof(struct Record, number),
                               offsetof(struct Record, list)};
    const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Datatype fields;
    MPI_Datatype record;
    MPI_Type_create_struct(3, lengths, places, types, &fields);
    MPI_Type_create_resized(fields, 0, sizeof(struct Record), &record);
    MPI_Type_commit(&record);
    memset(list, 0, (size_t)count * sizeof *list);
    for (int i = 0; i < count && rank == 0; ++i) {
        list[i].letter = (char)('a' + i % 26);
        list[i].number = i * 0.25;
        for (int k = 0; k < 3; ++k)
            list[i].list[k] = i + k;
        list[i].last = 99;
    }
    if (rank == 0) {
        MPI_Send(list, count, record, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Status status;
        int got = 0;
        MPI_Recv(list, count, record, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, record, &got);
        CHECK_EQUAL(got, count);
        for (int i = 0; i < count; ++i) {
            CHECK_EQUAL(list[i].letter, 'a' + i % 26);
            CHECK(list[i].number == i * 0.25);
            for (int k = 0; k < 3; ++k)
                CHECK_EQUAL(list[i].list[k], i + k);
            CHECK_EQUAL(list[i].last, 0);
        }
    }
    MPI_Type_free(&fields);
    MPI_Type_free(&record);
    free(list);
}

static void pieces(void) {
    step("pieces of all lengths");
    enum { count = 200 };
    int lengths[count];
    int places[count];
    int all = 0;
    int room = 0;
    for (int i = 0; i < count; ++i) {
        lengths[i] = (i * 37) % 301;
        places[i] = room + 5;
        room += lengths[i] + 5 + i % 4;
        all += lengths[i];
    }
    MPI_Datatype indexed;
    MPI_Type_indexed(count, lengths, places, MPI_BYTE, &indexed);
    MPI_Type_commit(&indexed);
    char* const memory = take_memory((size_t)room);
    char* const whole = take_memory((size_t)all);
    fill(whole, (size_t)all, 77);
    if (rank == 0) {
        int done = 0;
        memset(memory, 1, (size_t)room);
        for (int i = 0; i < count; ++i) {
            memcpy(memory + places[i], whole + done, (size_t)lengths[i]);
            done += lengths[i];
        }
        MPI_Send(memory, 1, indexed, 1, 2, MPI_COMM_WORLD);
    } else {
        char* const expected = take_memory((size_t)room);
        int done = 0;
        memset(memory, 3, (size_t)room);
        memset(expected, 3, (size_t)room);
        for (int i = 0; i < count; ++i) {
            memcpy(expected + places[i], whole + done, (size_t)lengths[i]);
            done += lengths[i];
        }
        MPI_Recv(memory, 1, indexed, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(memcmp(memory, expected, (size_t)room) == 0);
        free(expected);
    }
    MPI_Type_free(&indexed);
    free(memory);
    free(whole);
}

static void block_of_array(void) {
    step("a block of an array");
    enum { edge = 40, part = 17 };
    const int whole[3] = {edge, edge, edge};
    const int size[3] = {part, part, part};
    const int from[3] = {3, 5, 7};
    MPI_Datatype block;
    MPI_Type_create_subarray(3, whole, size, from, MPI_ORDER_C, MPI_DOUBLE, &block);
    MPI_Type_commit(&block);
    double* const array = take_memory(sizeof(double) * edge * edge * edge);
    for (int i = 0; i < edge * edge * edge; ++i)
        array[i] = rank == 0 ? i : -1;
    MPI_Bcast(array, 1, block, 0, MPI_COMM_WORLD);
    for (int i = 0; i < edge * edge * edge && rank != 0; ++i) {
        const int z = i % edge;
        const int y = i / edge % edge;
        const int x = i / edge / edge;
        const int inside =
            x >= 3 && x < 3 + part && y >= 5 && y < 5 + part && z >= 7 && z < 7 + part;
        CHECK(array[i] == (inside ? i : -1));
    }
    MPI_Type_free(&block);
    free(array);
}

static void packed(void) {
    step("packed by hand");
    char memory[1000];
    int place = 0;
    int number = 17;
    double value = 2.5;
    if (rank == 0) {
        MPI_Pack(&number, 1, MPI_INT, memory, 1000, &place, MPI_COMM_WORLD);
        MPI_Pack(&value, 1, MPI_DOUBLE, memory, 1000, &place, MPI_COMM_WORLD);
        MPI_Send(memory, place, MPI_PACKED, 1, 3, MPI_COMM_WORLD);
    } else {
        number = 0;
        value = 0;
        MPI_Recv(memory, 1000, MPI_PACKED, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Unpack(memory, 1000, &place, &number, 1, MPI_INT, MPI_COMM_WORLD);
        MPI_Unpack(memory, 1000, &place, &value, 1, MPI_DOUBLE, MPI_COMM_WORLD);
        CHECK_EQUAL(number, 17);
        CHECK(value == 2.5);
    }
}

int main(int argc, char** argv) {
    begin(&argc, &argv, "datatypes");
    if (ranks != 2) FAIL("this is for two ranks");
    for (int rows = 3; rows <= 1000; rows = rows * 3 + 1)
        columns(rows);
    for (int count = 1; count <= 100000; count *= 10)
        records(count);
    pieces();
    block_of_array();
    packed();
    return end();
}
