/* mpi_window.c URI: the ranks of a node load one array together, into a window that they share.
 *
 *     tools/archive.sh out
 *     mpicc -std=c11 -Iout examples/mpi_window.c out/libwavetrain.a -lpthread -ldl -o mpi_window
 *     mpirun -n 4 ./mpi_window STORE
 *
 * The array lies in memory of MPI's once for the node. Each rank reads its rows of it, cut where
 * files end, straight into the window: wavetrain_read_into takes memory of anybody's. Rank 0 prints
 * the shape and the sum of (place + 1) * element, modulo 2^64, of elements of up to 8 bytes. */
#include "wavetrain.h"

#include <mpi.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(wavetrain_status status, const char *what, const char *why) {
    if (status == WAVETRAIN_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, wavetrain_status_str(status), why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The rows of rank `rank` of `count`: whole files, as evenly as that goes. */
static void rows_of(const wavetrain_array_view *array, int rank, int count, uint64_t *first,
                    uint64_t *limit) {
    const uint64_t rows = array->shape[0], file = array->file_shape[0];
    const uint64_t files = rows / file + (rows % file != 0);
    const uint64_t each = files / (uint64_t)count, more = files % (uint64_t)count;
    const uint64_t before = each * (uint64_t)rank + ((uint64_t)rank < more ? (uint64_t)rank : more);
    const uint64_t behind = before + each + ((uint64_t)rank < more);
    *first = before * file < rows ? before * file : rows;
    *limit = behind * file < rows ? behind * file : rows;
}

static uint64_t sum_of(const unsigned char *bytes, uint64_t elements, uint32_t element_bytes) {
    uint64_t sum = 0;
    for (uint64_t place = 0; place < elements; place++) {
        uint64_t element = 0;
        memcpy(&element, bytes + place * element_bytes, element_bytes);
        sum += (place + 1) * element;
    }
    return sum;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int rank, count;
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &count);
    if (argc != 2) {
        if (rank == 0)
            fprintf(stderr, "usage: mpi_window URI\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    wavetrain_error error = { .struct_size = sizeof error };
    wavetrain_array_view array = { .struct_size = sizeof array };
    void *scratch = malloc(WAVETRAIN_SCRATCH_BYTES);
    check(wavetrain_array_info(argv[1], NULL, scratch, WAVETRAIN_SCRATCH_BYTES, &array, &error),
          argv[1], error.text);
    uint64_t elements = 1;
    for (uint32_t axis = 0; axis < array.rank; axis++)
        elements *= array.shape[axis];
    if (array.kind != WAVETRAIN_NODE_ARRAY || array.rank == 0 || array.dtype_bytes > 8)
        check(WAVETRAIN_INVALID, argv[1], "not an array of rows of elements of up to 8 bytes");

    /* Rank 0 has the memory, the others see it. */
    const MPI_Aint bytes = rank == 0 ? (MPI_Aint)(elements * array.dtype_bytes) : 0;
    MPI_Win window;
    unsigned char *own, *whole;
    MPI_Aint size;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, node, &own, &window);
    MPI_Win_shared_query(window, 0, &size, &unit, &whole);

    /* RAW: elements as they are. The loader makes no batches: its slot is as small as can be. */
    wavetrain_config config;
    wavetrain_config_default(&config, sizeof config);
    config.sample_rank = 1;
    config.sample_shape[0] = 1;
    config.dtype = WAVETRAIN_RAW;
    config.dtype_bytes = 1;
    config.n_batch_slots = 1;
    const char *const uris[] = { argv[1] };
    check(wavetrain_config_fit(&config, uris, 1, scratch, WAVETRAIN_SCRATCH_BYTES, &error), "fit",
          error.text);
    wavetrain_loader loader;
    check(wavetrain_open(&config, &loader, &error), "open", error.text);

    wavetrain_box box;
    memset(&box, 0, sizeof box);
    box.uri = argv[1];
    box.uri_bytes = strlen(argv[1]);
    box.rank = array.rank;
    for (uint32_t axis = 1; axis < array.rank; axis++)
        box.end[axis] = (int64_t)array.shape[axis];
    uint64_t first, limit;
    rows_of(&array, rank, count, &first, &limit);
    box.begin[0] = (int64_t)first;
    box.end[0] = (int64_t)limit;
    const uint64_t row_bytes = elements / array.shape[0] * array.dtype_bytes;
    MPI_Win_fence(0, window);
    if (first < limit)
        check(wavetrain_read_into(loader, &box, sizeof box, whole + first * row_bytes,
                                  (limit - first) * row_bytes, NULL, WAVETRAIN_FOREVER, &error),
              "read_into", error.text);
    MPI_Win_fence(0, window);
    wavetrain_close(loader, WAVETRAIN_FOREVER, NULL);

    if (rank == 0) {
        for (uint32_t axis = 0; axis < array.rank; axis++)
            printf("%s%" PRIu64, axis == 0 ? "" : "x", array.shape[axis]);
        printf(" by %d ranks, checksum %016" PRIx64 "\n", count,
               sum_of(whole, elements, array.dtype_bytes));
    }
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    free(scratch);
    MPI_Finalize();
    return 0;
}
