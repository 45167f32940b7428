/*
 * How output pixels are cut into tiles. A tile is a run of pixels of one image, from column q0 of
 * row p0 to before column q1 of row p1 - 1; where rows are long for the cache it is `cut`, columns
 * q0 ... q1-1 of each row. Its pixels are numbered from 0, row by row.
 */
#ifndef DSCONV_CPU_NHWC_TILES_H
#define DSCONV_CPU_NHWC_TILES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nhwc_tile {
    int64_t p0, p1, q0, q1, q; /* q: columns of the image */
    bool cut;
} nhwc_tile;

static inline int64_t nhwc_tile_pixel(const nhwc_tile *t, int64_t p, int64_t q) {
    return (p - t->p0) * (t->cut ? t->q1 - t->q0 : t->q) + q - t->q0;
}

static inline int64_t nhwc_tile_pixels(const nhwc_tile *t) {
    return nhwc_tile_pixel(t, t->p1 - 1, t->q1);
}

static inline int64_t nhwc_row_begin(const nhwc_tile *t, int64_t p) {
    return t->cut || p == t->p0 ? t->q0 : 0;
}

static inline int64_t nhwc_row_end(const nhwc_tile *t, int64_t p) {
    return t->cut || p == t->p1 - 1 ? t->q1 : t->q;
}

typedef struct nhwc_tiling {
    int64_t p, q;
    int64_t tiles;        /* per image */
    int64_t rows, pieces; /* of a cut tile, and cut tiles in a row; pieces 0: not cut */
    int64_t align;        /* tiles that are not cut begin at multiples of this many pixels */
} nhwc_tiling;

/* n images of p x q pixels for some threads, in tiles of `pixels` or somewhat more; with `pairs`
 * rows go by twos if possible. */
nhwc_tiling dsconv_nhwc_make_tiling(int64_t n, int64_t p, int64_t q, int64_t pixels, bool pairs,
                                    int64_t threads);

/* Bound of the pixels of a tile, whatever n and threads. */
int64_t dsconv_nhwc_most_pixels(int64_t p, int64_t q, int64_t pixels);

nhwc_tile dsconv_nhwc_make_tile(const nhwc_tiling *tiling, int64_t index);

#endif
