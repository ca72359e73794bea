/* tiles.c: answers questions about tiles, a line each, for tests/ship/tiles.rs; as C and as C++.
 *
 *     tile ROWS WORLD PER_RANK UNIT RANK K     rows of a tile, tiles with rows, begin, end
 *     rank ROWS WORLD PER_RANK UNIT RANK       begin and end of each tile of the rank
 *     cut BEGIN END FILE_ROWS ..               file, begin, end, at of each piece; rows left
 *     grid NUMBER AXES SHAPE .. EDGES ..       tiles; begin .. and end .. of one, if there is one
 */
#include "wavetrain_tiles.h"
#include "wavetrain_tiles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBERS_MAX = 64 };

static void print(uint64_t number) { printf(" %" PRIu64, number); }

static wavetrain_split split_of(const uint64_t *numbers) {
    wavetrain_split split;
    split.rows = numbers[0];
    split.world = (uint32_t)numbers[1];
    split.per_rank = (uint32_t)numbers[2];
    split.unit = numbers[3];
    return split;
}

static void tile(const uint64_t *numbers) {
    const wavetrain_split split = split_of(numbers);
    const wavetrain_rows rows =
        wavetrain_tile(&split, (uint32_t)numbers[4], (uint32_t)numbers[5]);
    print(wavetrain_tile_rows(&split));
    print(wavetrain_tile_count(&split));
    print(rows.begin);
    print(rows.end);
}

static void of_rank(const uint64_t *numbers) {
    const wavetrain_split split = split_of(numbers);
    const uint32_t rank = (uint32_t)numbers[4];
#ifdef __cplusplus
    for (wavetrain_rows rows : wavetrain::tiles(split, rank)) {
        print(rows.begin);
        print(rows.end);
    }
#else
    uint32_t k;
    for (k = 0; k == 0 || k < split.per_rank; k++) {
        const wavetrain_rows rows = wavetrain_tile(&split, rank, k);
        if (wavetrain_rows_count(rows) == 0)
            continue;
        print(rows.begin);
        print(rows.end);
    }
#endif
}

static void cut_at(const uint64_t *numbers, size_t count) {
    wavetrain_rows rows;
    rows.begin = numbers[0];
    rows.end = numbers[1];
#ifdef __cplusplus
    wavetrain::cut cut(rows, numbers + 2, count - 2);
    for (const wavetrain_piece &piece : cut) {
        print(piece.file);
        print(piece.rows.begin);
        print(piece.rows.end);
        print(piece.at);
    }
    print(cut.left());
#else
    wavetrain_cut cut = wavetrain_cut_at(rows, numbers + 2, count - 2);
    wavetrain_piece piece;
    while (wavetrain_cut_next(&cut, &piece)) {
        print(piece.file);
        print(piece.rows.begin);
        print(piece.rows.end);
        print(piece.at);
    }
    print(cut.left);
#endif
}

static void grid(const uint64_t *numbers) {
    const uint32_t axes = (uint32_t)numbers[1];
    const uint64_t *shape = numbers + 2, *edges = numbers + 2 + axes;
    int64_t begin[NUMBERS_MAX], end[NUMBERS_MAX];
    uint32_t axis;
    print(wavetrain_grid_count(axes, shape, edges));
    if (!wavetrain_grid_box(axes, shape, edges, numbers[0], begin, end))
        return;
    for (axis = 0; axis < axes; axis++)
        print((uint64_t)begin[axis]);
    for (axis = 0; axis < axes; axis++)
        print((uint64_t)end[axis]);
}

/* Files that are not there are none: the rows that were asked for are left. */
static int has_rows_of_no_files(void) {
    const wavetrain_rows rows = { 1, 4 };
    wavetrain_cut cut = wavetrain_cut_at(rows, NULL, 2);
    wavetrain_piece piece;
    return wavetrain_cut_next(&cut, &piece) || cut.left != 3;
}

int main(void) {
    char line[4096];
    if (has_rows_of_no_files())
        return 2;
    while (fgets(line, sizeof line, stdin) != NULL) {
        uint64_t numbers[NUMBERS_MAX] = { 0 };
        size_t count = 0;
        char *at = line + strcspn(line, " ");
        for (; count < NUMBERS_MAX && *at == ' '; count++)
            numbers[count] = strtoull(at, &at, 10);
        if (strncmp(line, "tile ", 5) == 0)
            tile(numbers);
        else if (strncmp(line, "rank ", 5) == 0)
            of_rank(numbers);
        else if (strncmp(line, "cut ", 4) == 0)
            cut_at(numbers, count);
        else if (strncmp(line, "grid ", 5) == 0)
            grid(numbers);
        else
            return 1;
        printf("\n");
    }
    return 0;
}
