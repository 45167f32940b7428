/*
 * The depthwise stage of the strip kernel for 16-bit storage: a warp owns 32 channels, one a lane.
 */
#ifndef DSCONV_CUDA_SM90_ROLLING_H
#define DSCONV_CUDA_SM90_ROLLING_H

#include "sm90_strip.h"

/* A depthwise warp: 32 channels, one a lane, and SEGMENT pixels of every row. Each row of x is read
 * once, for the three rows of mid that it is part of. */
template <class Config> struct sm90_rolling {
    typedef typename Config::T T;
    typedef typename Config::raw raw;
    static constexpr int V = Config::VECTOR, SEGMENT = Config::SEGMENT;

    float w[9], bias, low, high;
    float sum[2][SEGMENT]; /* of the next row of mid and the one after, so far */

    struct alignas(16) vector {
        raw v[V];
    };

    static __device__ __forceinline__ float tap(float value, float weight, float total,
                                                bool inside) {
        return inside ? fmaf(value, weight, total) : total;
    }

    /* Takes a row of x, from this lane's channel at the segment's first pixel on: finishes a row of
     * mid, goes on with the next and starts the one after. Weights that are not finite must not
     * meet the zeros outside the image: with TESTED, taps outside are left out; `left` and `right`:
     * of the image, from the segment's first pixel. */
    template <bool TESTED, bool BOUNDED>
    __device__ __forceinline__ void take(const raw *row, char *tile, bool &odd, bool line, int left,
                                         int right) {
        float before = T::load(row[-1]);
        vector at = *(const vector *)row;
#pragma unroll
        for (int x = 0; x < SEGMENT; x += V) {
            vector next;
            if (x + V < SEGMENT)
                next = *(const vector *)(row + x + V);
            else
                next.v[0] = row[x + V];
            float v[V + 2], mid[V];
            v[0] = before;
#pragma unroll
            for (int m = 0; m < V; m++)
                v[m + 1] = T::load(at.v[m]);
            v[V + 1] = T::load(next.v[0]);
#pragma unroll
            for (int m = 0; m < V; m++) {
                mid[m] = sum[0][x + m];
                sum[0][x + m] = sum[1][x + m];
                sum[1][x + m] = bias;
#pragma unroll
                for (int t = 0; t < 3; t++) {
                    const int column = x + m + t - 1;
                    const bool inside = !TESTED || (line && column >= left && column < right);
                    mid[m] = tap(v[m + t], w[6 + t], mid[m], inside);
                    sum[0][x + m] = tap(v[m + t], w[3 + t], sum[0][x + m], inside);
                    sum[1][x + m] = tap(v[m + t], w[t], sum[1][x + m], inside);
                }
                if (BOUNDED)
                    mid[m] = sm90_clamp(mid[m], low, high);
            }
            Config::put(tile + Config::place(0, x), mid, odd);
            before = v[V];
            at = next;
        }
    }
};

template <class Config>
__device__ void sm90_rolling_warp(const sm90_rows_args &a, const sm90_strip &strip,
                                  typename Config::shared &s, bool finite) {
    typedef typename Config::raw raw;
    const int warp = (int)threadIdx.x / 32 - 4, lane = (int)threadIdx.x % 32;
    const int channel = warp % 2 * 32 + lane, x = warp / 2 * Config::SEGMENT;
    sm90_rolling<Config> dw;
    sm90_load_taps(dw, a, channel);
    const bool bounded = a.mid_low > -INFINITY;
#pragma unroll
    for (int i = 0; i < Config::SEGMENT; i++)
        dw.sum[0][i] = dw.sum[1][i] = dw.bias;
    const int in_ring = channel * Config::ROW + Config::MARGIN + x;
    const int in_tile = Config::place(channel, x);

    sm90_place<Config::RING> at;
    sm90_place<Config::TILES> tile;
#pragma unroll 1
    for (int row = 0; row < strip.rows + 2; row++) {
        barrier_wait(&s.row_full[at.slot], at.phase);
        barrier_wait(&s.tile_empty[tile.slot], tile.phase ^ 1);
        __syncwarp();
        const raw *from = (const raw *)s.ring[at.slot] + in_ring;
        char *to = s.tile[tile.slot] + in_tile;
        bool odd = false;
        if (!finite) {
            const int line = strip.first - a.pad_top + row, left = -(strip.x0 + x);
            dw.template take<true, true>(from, to, odd, line >= 0 && line < a.height, left,
                                         left + a.width);
        } else if (bounded) {
            dw.template take<false, true>(from, to, odd, true, 0, 0);
        } else {
            dw.template take<false, false>(from, to, odd, true, 0, 0);
        }
        odd = __any_sync(~0U, odd);
        fence_async();
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&s.row_empty[at.slot]);
        at.advance();
        if (row < 2)
            continue; /* not whole: the next one goes to its place */
        if (lane == 0) {
            s.tile_odd[tile.slot].warp[warp] = odd;
            barrier_arrive(&s.tile_full[tile.slot]);
        }
        tile.advance();
    }
}

#endif
