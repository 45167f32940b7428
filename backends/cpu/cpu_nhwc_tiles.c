/* How output pixels are cut into tiles. */
#include "cpu_nhwc_tiles.h"

#include "cpu_internal.h"

enum {
    MIN_PIXELS = 12, /* of a tile that is made smaller to occupy more threads */
    COLUMNS = 8      /* cuts are at multiples of this */
};

/* Tiles per image: enough for the threads, and a multiple of them where there are few. */
static int64_t count_tiles(int64_t n, int64_t total, int64_t pixels, int64_t threads) {
    int64_t tiles = ceil_div(total, pixels);
    const int64_t most = maximum(tiles, total / MIN_PIXELS);
    if (n * tiles < threads)
        tiles = minimum(most, ceil_div(threads, n));
    if (n * tiles >= 8 * threads)
        return tiles;
    for (int64_t t = tiles; t <= minimum(most, 2 * tiles); t++)
        if (n * t % threads == 0)
            return t;
    return tiles;
}

nhwc_tiling dsconv_nhwc_make_tiling(int64_t n, int64_t p, int64_t q, int64_t pixels, bool pairs,
                                    int64_t threads) {
    nhwc_tiling t = {.p = p, .q = q, .align = 1};
    const int64_t share = n * p * q / threads;
    if (pairs && 4 * q > pixels && share >= 8 * pixels) {
        t.rows = 2;
        t.pieces = minimum(ceil_div(2 * q, pixels), maximum(q / COLUMNS, 1));
        t.tiles = ceil_div(p, t.rows) * t.pieces;
        return t;
    }
    t.tiles = count_tiles(n, p * q, pixels, threads);
    /* Whole rows or pairs of them, where that leaves the threads evenly loaded. */
    for (int64_t rows = pairs ? 2 : 1; rows > 0; rows--)
        if (rows * q * 2 <= pixels && rows * q <= share &&
            (share % (rows * q) == 0 || rows * q * 50 <= share)) {
            t.align = rows * q;
            break;
        }
    return t;
}

int64_t dsconv_nhwc_most_pixels(int64_t p, int64_t q, int64_t pixels) {
    return minimum(p * q, pixels + maximum(pixels / 2, (int64_t)4 * COLUMNS));
}

nhwc_tile dsconv_nhwc_make_tile(const nhwc_tiling *tiling, int64_t index) {
    const int64_t q = tiling->q, bands = ceil_div(tiling->p, maximum(tiling->rows, 1));
    nhwc_tile t = {.q = q, .cut = tiling->pieces > 0};
    if (t.cut) {
        const int64_t piece = index / bands;
        t.p0 = index % bands * tiling->rows;
        t.p1 = minimum(t.p0 + tiling->rows, tiling->p);
        t.q0 = q * piece / tiling->pieces / COLUMNS * COLUMNS;
        t.q1 =
            piece + 1 == tiling->pieces ? q : q * (piece + 1) / tiling->pieces / COLUMNS * COLUMNS;
        return t;
    }
    const int64_t total = tiling->p * q, align = tiling->align;
    const int64_t begin = total * index / tiling->tiles / align * align;
    const int64_t end =
        index + 1 == tiling->tiles ? total : total * (index + 1) / tiling->tiles / align * align;
    t.p0 = begin / q;
    t.q0 = begin % q;
    t.p1 = (end - 1) / q + 1;
    t.q1 = end - (t.p1 - 1) * q;
    return t;
}
