/*
 * The depthwise stage of the strip kernel for f32: a warp owns 32 channels, one a lane, and slides
 * along the three input rows of an output row.
 */
#ifndef DSCONV_CUDA_SM90_WINDOW_H
#define DSCONV_CUDA_SM90_WINDOW_H

#include "sm90_strip.h"

/* A depthwise warp: 32 channels, one a lane, and SEGMENT pixels of every row. */
template <class Config> struct sm90_window {
    typedef typename Config::T T;
    typedef typename Config::raw raw;
    static constexpr int V = Config::VECTOR;

    float w[9], bias, low, high;
    const raw *row[3]; /* this lane's channel, at the segment's first pixel */
    float *tile;
    bool odd;

    __device__ __forceinline__ void put(int x, float v) {
        sm90_put<Config>(tile + sm90_column(x), sm90_clamp(v, low, high), odd);
    }

    struct alignas(16) vector {
        raw v[V];
    };

    /* Slides along the row, V pixels at a time. */
    __device__ __forceinline__ void segment() {
        float left[3];
        vector at[3];
#pragma unroll
        for (int r = 0; r < 3; r++) {
            left[r] = T::load(row[r][-1]);
            at[r] = *(const vector *)row[r];
        }
#pragma unroll
        for (int x = 0; x < Config::SEGMENT; x += V) {
            float sum[V];
#pragma unroll
            for (int m = 0; m < V; m++)
                sum[m] = bias;
#pragma unroll
            for (int r = 0; r < 3; r++) {
                vector next;
                if (x + V < Config::SEGMENT)
                    next = *(const vector *)(row[r] + x + V);
                else
                    next.v[0] = row[r][x + V];
                float v[V + 2];
                v[0] = left[r];
#pragma unroll
                for (int m = 0; m < V; m++)
                    v[m + 1] = T::load(at[r].v[m]);
                v[V + 1] = T::load(next.v[0]);
#pragma unroll
                for (int m = 0; m < V; m++)
#pragma unroll
                    for (int t = 0; t < 3; t++)
                        sum[m] = fmaf(v[m + t], w[3 * r + t], sum[m]);
                left[r] = v[V];
                at[r] = next;
            }
#pragma unroll
            for (int m = 0; m < V; m++)
                put(x + m, sum[m]);
        }
    }

    /* The same with every tap tested: weights that are not finite must not meet the zeros outside
     * the image. (x0, y): the segment's first pixel, the window's first row. */
    __device__ __forceinline__ void segment_tested(const sm90_rows_args &a, int x0, int y) {
#pragma unroll 1
        for (int x = 0; x < Config::SEGMENT; x++) {
            float sum = bias;
#pragma unroll
            for (int i = 0; i < 9; i++) {
                int column = x0 + x + i % 3 - 1, line = y + i / 3;
                if (column >= 0 && column < a.width && line >= 0 && line < a.height)
                    sum = fmaf(T::load(row[i / 3][x + i % 3 - 1]), w[i], sum);
            }
            put(x, sum);
        }
    }
};

template <class Config>
__device__ void sm90_window_warp(const sm90_rows_args &a, const sm90_strip &strip,
                                 typename Config::shared &s, bool finite) {
    typedef typename Config::raw raw;
    const int warp = (int)threadIdx.x / 32 - 4, lane = (int)threadIdx.x % 32;
    const int channel = warp % 2 * 32 + lane, x = warp / 2 * Config::SEGMENT;
    sm90_window<Config> dw;
    sm90_load_taps(dw, a, channel);
    const int in_ring = channel * Config::ROW + Config::MARGIN + x;
    const int in_tile = sm90_channel<Config>(channel) + x * 4;

    sm90_place<Config::RING> at[3];
    at[1].advance();
    at[2].advance();
    at[2].advance();
    sm90_place<Config::TILES> tile;
    barrier_wait(&s.row_full[at[0].slot], at[0].phase);
    barrier_wait(&s.row_full[at[1].slot], at[1].phase);
#pragma unroll 1
    for (int row = 0; row < strip.rows; row++) {
        barrier_wait(&s.row_full[at[2].slot], at[2].phase);
        barrier_wait(&s.tile_empty[tile.slot], tile.phase ^ 1);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < 3; r++)
            dw.row[r] = (const raw *)s.ring[at[r].slot] + in_ring;
        dw.tile = (float *)s.tile[tile.slot] + in_tile;
        dw.odd = false;
        if (finite)
            dw.segment();
        else
            dw.segment_tested(a, strip.x0 + x, strip.first + row - a.pad_top);
        const bool odd = __any_sync(~0U, dw.odd);
        fence_async();
        __syncwarp();
        if (lane == 0) {
            s.tile_odd[tile.slot].warp[warp] = odd;
            barrier_arrive(&s.tile_full[tile.slot]);
            barrier_arrive(&s.row_empty[at[0].slot]);
        }
        at[0] = at[1];
        at[1] = at[2];
        at[2].advance();
        tile.advance();
    }
}

#endif
