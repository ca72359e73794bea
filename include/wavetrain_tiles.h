/* wavetrain_tiles.h - which rank of many loads which rows of an array.
 *
 * SPDX-License-Identifier: MIT
 *
 * Arithmetic and nothing else: no library, no allocation, no state, C99 or any C++. It holds for
 * all numbers of 64 bits: nothing overflows, and a range that does not fit ends at the last row.
 *
 *     wavetrain_split split = { .rows = rows, .world = 4, .per_rank = 2 };
 *     for (uint32_t k = 0; k < 2; k++) {
 *         wavetrain_rows tile = wavetrain_tile(&split, my_rank, k);
 *         wavetrain_cut cut = wavetrain_cut_at(tile, file_rows, file_count);
 *         wavetrain_piece piece;
 *         while (wavetrain_cut_next(&cut, &piece))
 *             load(piece.file, piece.rows, to_row + piece.at);
 *     }
 *
 * In C++11 and later:
 *
 *     for (wavetrain_rows tile : wavetrain::tiles(split, my_rank))
 *         for (const wavetrain_piece &piece : wavetrain::cut(tile, file_rows, file_count))
 *             load(piece.file, piece.rows, to_row + piece.at);
 *
 * wavetrain.tiles of the Python package gives the same numbers.
 */
#ifndef WAVETRAIN_TILES_H
#define WAVETRAIN_TILES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WAVETRAIN_TILES_I64(number) static_cast<int64_t>(number)
extern "C" {
#else
#define WAVETRAIN_TILES_I64(number) ((int64_t)(number))
#endif

/* Rows begin <= i < end; none if they are the same. */
typedef struct wavetrain_rows {
    uint64_t begin, end;
} wavetrain_rows;

static inline uint64_t wavetrain_rows_count(wavetrain_rows rows) {
    return rows.end > rows.begin ? rows.end - rows.begin : 0;
}

/* A count or a unit that is 0 stands for 1. */
static inline uint64_t wavetrain_at_least_1(uint64_t count) { return count == 0 ? 1 : count; }

/* by: not 0. */
static inline uint64_t wavetrain_ceil_div(uint64_t count, uint64_t by) {
    return count / by + (count % by != 0);
}

/* ---- Tiles of one axis -------------------------------------------------------------------------
 *
 * `world` ranks take `per_rank` tiles each. All have as many rows, the smallest number with which
 * that many tiles suffice, so that the last one that has any may have fewer, and those after it
 * none. E.g. 10 rows, 4 ranks: 0..3, 3..6, 6..9, 9..10; 9 rows: 0..3, 3..6, 6..9 and none.
 *
 * Tiles are dealt like cards: tile number k * world + rank is the k-th of a rank. The tiles that
 * all ranks load at a time are neighbours, and no rank has two tiles more than another. */

typedef struct wavetrain_split {
    uint64_t rows;     /* of the array along the axis */
    uint32_t world;    /* ranks */
    uint32_t per_rank; /* tiles of each; 0 is 1 */
    uint64_t unit;     /* tiles begin at a multiple of it: the rows of a chunk, or of a file, which
                        * then has one reader. 0 is 1 */
} wavetrain_split;

/* Rows of a tile, at least 1. */
static inline uint64_t wavetrain_tile_rows(const wavetrain_split *split) {
    const uint64_t unit = wavetrain_at_least_1(split->unit);
    const uint64_t world = wavetrain_at_least_1(split->world);
    const uint64_t tiles = world * wavetrain_at_least_1(split->per_rank);
    const uint64_t units = wavetrain_ceil_div(wavetrain_ceil_div(split->rows, unit), tiles);
    if (units > UINT64_MAX / unit)
        return UINT64_MAX;
    return units == 0 ? unit : units * unit;
}

/* How many tiles have rows: the number of tasks. */
static inline uint64_t wavetrain_tile_count(const wavetrain_split *split) {
    return wavetrain_ceil_div(split->rows, wavetrain_tile_rows(split));
}

/* The k-th tile of a rank. It has no rows if no such rank or k exists. */
static inline wavetrain_rows wavetrain_tile(const wavetrain_split *split, uint32_t rank,
                                            uint32_t k) {
    const uint64_t rows = wavetrain_tile_rows(split);
    const uint64_t before = k;
    const uint64_t number = before * split->world + rank; /* at most 2^64 - 2^32 - 1 */
    wavetrain_rows tile;
    const int is_one = rank < split->world && k < wavetrain_at_least_1(split->per_rank) &&
                       number < wavetrain_tile_count(split);
    tile.begin = is_one ? number * rows : split->rows;
    tile.end = split->rows - tile.begin > rows ? tile.begin + rows : split->rows;
    return tile;
}

/* ---- Tiles of several axes ---------------------------------------------------------------------
 *
 * An array is a grid of tiles of one shape, those at its far edges cut. They are numbered in
 * row-major order, so that the numbers can be split like rows, as { .rows =
 * wavetrain_grid_count(..), .. }. An edge of 0 is the whole axis: edges { wavetrain_tile_rows(..),
 * 0, 0 } are tiles of axis 0, and the other axes ride along. Edges as of wavetrain_array_view's
 * chunk_shape or file_shape make tiles that share no chunk, or no file. */

/* Tiles along an axis. */
static inline uint64_t wavetrain_grid_extent(uint64_t extent, uint64_t edge) {
    return wavetrain_ceil_div(extent, wavetrain_at_least_1(edge == 0 ? extent : edge));
}

/* How many tiles it has; UINT64_MAX if it has more. An array without axes is one. */
static inline uint64_t wavetrain_grid_count(uint32_t axes, const uint64_t *shape,
                                            const uint64_t *edges) {
    uint64_t count = 1;
    uint32_t axis;
    int is_more = 0;
    for (axis = 0; axis < axes; axis++) {
        const uint64_t extent = wavetrain_grid_extent(shape[axis], edges[axis]);
        if (extent == 0)
            return 0;
        is_more |= count > UINT64_MAX / extent;
        count *= is_more ? 1 : extent;
    }
    return is_more ? UINT64_MAX : count;
}

/* The box of a tile, of the types that a wavetrain_box has. 0, and nothing is written, if no such
 * tile exists, or the array reaches beyond INT64_MAX. */
static inline int wavetrain_grid_box(uint32_t axes, const uint64_t *shape, const uint64_t *edges,
                                     uint64_t number, int64_t *begin, int64_t *end) {
    uint32_t axis;
    for (axis = 0; axis < axes; axis++) {
        if (shape[axis] > INT64_MAX)
            return 0;
    }
    if (number >= wavetrain_grid_count(axes, shape, edges))
        return 0;
    for (axis = axes; axis-- > 0;) {
        const uint64_t extent = wavetrain_grid_extent(shape[axis], edges[axis]);
        const uint64_t edge = edges[axis] == 0 ? shape[axis] : edges[axis];
        const uint64_t first = number % extent * edge; /* < shape[axis] */
        number /= extent;
        begin[axis] = WAVETRAIN_TILES_I64(first);
        end[axis] =
            WAVETRAIN_TILES_I64(shape[axis] - first > edge ? first + edge : shape[axis]);
    }
    return 1;
}

/* ---- Rows of many files ------------------------------------------------------------------------
 *
 * Files whose rows are one array, the first file's first: rows of it, cut at the ends of files.
 * Files may have different numbers of rows, and none. */

typedef struct wavetrain_piece {
    uint64_t file;       /* its number, from 0 */
    wavetrain_rows rows; /* counted in the file; never none */
    uint64_t at;         /* the first of them, counted from the first row that was asked for */
} wavetrain_piece;

/* The state of a walk. Look at `left` after the last piece: it is not 0 if the files end before the
 * rows that were asked for. */
typedef struct wavetrain_cut {
    uint64_t left;             /* rows that are still to come */
    uint64_t skipped;          /* rows between the first row of `file` and the next piece */
    uint64_t at;               /* rows that came */
    const uint64_t *file_rows; /* borrowed */
    size_t file_count, file;
} wavetrain_cut;

static inline wavetrain_cut wavetrain_cut_at(wavetrain_rows rows, const uint64_t *file_rows,
                                             size_t file_count) {
    wavetrain_cut cut;
    cut.left = wavetrain_rows_count(rows);
    cut.skipped = rows.begin;
    cut.at = 0;
    cut.file_rows = file_rows;
    cut.file_count = file_rows ? file_count : 0;
    cut.file = 0;
    return cut;
}

/* The next piece; 0 after the last one. It looks at each file once, so a walk costs as much as
 * adding up their rows. */
static inline int wavetrain_cut_next(wavetrain_cut *cut, wavetrain_piece *piece) {
    for (; cut->left > 0 && cut->file < cut->file_count; cut->file++) {
        const uint64_t rows = cut->file_rows[cut->file];
        if (cut->skipped >= rows) {
            cut->skipped -= rows;
            continue;
        }
        piece->file = cut->file++;
        piece->at = cut->at;
        piece->rows.begin = cut->skipped;
        piece->rows.end = rows - cut->skipped > cut->left ? cut->skipped + cut->left : rows;
        cut->at += wavetrain_rows_count(piece->rows);
        cut->left -= wavetrain_rows_count(piece->rows);
        cut->skipped = 0;
        return 1;
    }
    return 0;
}

#ifdef __cplusplus
} /* extern "C" */

#if __cplusplus >= 201103L
namespace wavetrain {

/* The tiles of a rank that have rows, in order: for (wavetrain_rows tile : tiles(split, rank)). */
class tiles {
public:
    tiles(const wavetrain_split &split, uint32_t rank) noexcept : split_(split), rank_(rank) {}
    class iterator {
    public:
        iterator(const tiles &of, uint32_t k) noexcept : of_(&of), k_(k) {}
        wavetrain_rows operator*() const noexcept {
            return wavetrain_tile(&of_->split_, of_->rank_, k_);
        }
        iterator &operator++() noexcept {
            k_++;
            return *this;
        }
        /* Tiles without rows are the last ones, so the first of them is the end. */
        bool operator!=(const iterator &) const noexcept {
            return wavetrain_rows_count(**this) != 0;
        }

    private:
        const tiles *of_;
        uint32_t k_;
    };
    iterator begin() const noexcept { return iterator(*this, 0); }
    iterator end() const noexcept { return iterator(*this, 0); }

private:
    wavetrain_split split_;
    uint32_t rank_;
};

/* The pieces of rows: for (const wavetrain_piece &piece : cut(tile, file_rows, file_count)). */
class cut {
public:
    cut(wavetrain_rows rows, const uint64_t *file_rows, size_t file_count) noexcept
        : walk_(wavetrain_cut_at(rows, file_rows, file_count)) {}
    class iterator {
    public:
        explicit iterator(cut &over) noexcept : over_(&over) {}
        const wavetrain_piece &operator*() const noexcept { return over_->piece_; }
        iterator &operator++() noexcept {
            over_->is_inside_ = wavetrain_cut_next(&over_->walk_, &over_->piece_) != 0;
            return *this;
        }
        bool operator!=(const iterator &) const noexcept { return over_->is_inside_; }

    private:
        cut *over_;
    };
    /* A walk visits the files once: a second one continues after the end of the first. */
    iterator begin() noexcept { return ++iterator(*this); }
    iterator end() noexcept { return iterator(*this); }
    /* Rows that are missing: not 0 after the loop if the files have fewer. */
    uint64_t left() const noexcept { return walk_.left; }

private:
    wavetrain_cut walk_;
    wavetrain_piece piece_ = {};
    bool is_inside_ = false;
};

} /* namespace wavetrain */
#endif
#endif

#undef WAVETRAIN_TILES_I64
#endif /* WAVETRAIN_TILES_H */
