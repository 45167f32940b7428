/*
 * The depthwise stage of the strip kernel for f32: a warp owns 32 channels, one a lane, or in NHWC
 * 64, two a lane, and slides along the three input rows of an output row.
 */
#ifndef DSCONV_CUDA_SM90_WINDOW_H
#define DSCONV_CUDA_SM90_WINDOW_H

#include "sm90_strip.h"

/* A depthwise warp. */
template <class Config, bool ChannelsLast = Config::CHANNELS_LAST> struct sm90_window : sm90_taps {
    typedef typename Config::T T;
    typedef typename Config::raw raw;
    static constexpr int V = Config::VECTOR;

    int x, in_ring, in_tile; /* the segment's first pixel, and where the lane's part begins */
    const raw *row[3];       /* this lane's channel, at the segment's first pixel */
    float *tile;
    bool odd;

    __device__ __forceinline__ sm90_window(const sm90_rows_args &a, int warp, int lane) {
        const int channel = warp % 2 * 32 + lane;
        load(a, channel);
        x = warp / 2 * Config::SEGMENT;
        in_ring = channel * Config::ROW + Config::MARGIN + x;
        in_tile = sm90_channel<Config>(channel) + x * 4;
    }

    __device__ __forceinline__ void put(int pixel, float v) {
        sm90_put<Config>(tile + sm90_column(pixel), sm90_clamp(v, low, high), odd);
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
        for (int i = 0; i < Config::SEGMENT; i += V) {
            float sum[V];
#pragma unroll
            for (int m = 0; m < V; m++)
                sum[m] = bias;
#pragma unroll
            for (int r = 0; r < 3; r++) {
                vector next;
                if (i + V < Config::SEGMENT)
                    next = *(const vector *)(row[r] + i + V);
                else
                    next.v[0] = row[r][i + V];
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
                put(i + m, sum[m]);
        }
    }

    /* The same with every tap tested: weights that are not finite must not meet the zeros outside
     * the image. (x0, y): the segment's first pixel, the window's first row. */
    __device__ __forceinline__ void segment_tested(const sm90_rows_args &a, int x0, int y) {
#pragma unroll 1
        for (int pixel = 0; pixel < Config::SEGMENT; pixel++) {
            float sum = bias;
#pragma unroll
            for (int i = 0; i < 9; i++) {
                int column = x0 + pixel + i % 3 - 1, line = y + i / 3;
                if (column >= 0 && column < a.width && line >= 0 && line < a.height)
                    sum = fmaf(T::load(row[i / 3][pixel + i % 3 - 1]), w[i], sum);
            }
            put(pixel, sum);
        }
    }
};

/* The same in NHWC: the lane's two channels are neighbours, in the ring [column][channel] and in
 * the tile, whose columns are the pixels in order. */
template <class Config> struct sm90_window<Config, true> {
    typedef typename Config::raw raw;
    static_assert(sizeof(raw) == 4, "f32");

    sm90_taps taps[2];
    int x, in_ring, in_tile;
    const raw *row[3];
    float *tile;
    bool odd;

    __device__ __forceinline__ sm90_window(const sm90_rows_args &a, int warp, int lane) {
        taps[0].load(a, 2 * lane);
        taps[1].load(a, 2 * lane + 1);
        x = warp * Config::SEGMENT;
        in_ring = (Config::MARGIN + x) * SM90_CHANNELS + 2 * lane;
        in_tile = sm90_channel<Config>(2 * lane) + x * 4;
    }

    __device__ __forceinline__ float2 at(int r, int column) const {
        return *(const float2 *)(row[r] + column * SM90_CHANNELS);
    }

    __device__ __forceinline__ void put(int pixel, const float (&sum)[2]) {
        const float mid[2] = {sm90_clamp(sum[0], taps[0].low, taps[0].high),
                              sm90_clamp(sum[1], taps[1].low, taps[1].high)};
        sm90_put<Config>(tile + pixel * 4, mid, odd); /* 8 pixels x 4 channels: a core matrix */
    }

    __device__ __forceinline__ void segment() {
        float2 v[3][3]; /* of three rows, columns by their number modulo 3 */
#pragma unroll
        for (int r = 0; r < 3; r++) {
            v[r][0] = at(r, -1);
            v[r][1] = at(r, 0);
        }
#pragma unroll
        for (int pixel = 0; pixel < Config::SEGMENT; pixel++) {
            float sum[2] = {taps[0].bias, taps[1].bias};
#pragma unroll
            for (int r = 0; r < 3; r++) {
                v[r][(pixel + 2) % 3] = at(r, pixel + 1);
#pragma unroll
                for (int t = 0; t < 3; t++) {
                    sum[0] = fmaf(v[r][(pixel + t) % 3].x, taps[0].w[3 * r + t], sum[0]);
                    sum[1] = fmaf(v[r][(pixel + t) % 3].y, taps[1].w[3 * r + t], sum[1]);
                }
            }
            put(pixel, sum);
        }
    }

    __device__ __forceinline__ void segment_tested(const sm90_rows_args &a, int x0, int y) {
#pragma unroll 1
        for (int pixel = 0; pixel < Config::SEGMENT; pixel++) {
            float sum[2] = {taps[0].bias, taps[1].bias};
#pragma unroll
            for (int i = 0; i < 9; i++) {
                const int column = x0 + pixel + i % 3 - 1, line = y + i / 3;
                if (column < 0 || column >= a.width || line < 0 || line >= a.height)
                    continue;
                const float2 v = at(i / 3, pixel + i % 3 - 1);
                sum[0] = fmaf(v.x, taps[0].w[i], sum[0]);
                sum[1] = fmaf(v.y, taps[1].w[i], sum[1]);
            }
            put(pixel, sum);
        }
    }
};

template <class Config>
__device__ void sm90_window_warp(const sm90_rows_args &a, const sm90_strip &strip,
                                 typename Config::shared &s, bool finite) {
    typedef typename Config::raw raw;
    const int warp = (int)threadIdx.x / 32 - 4, lane = (int)threadIdx.x % 32;
    sm90_window<Config> dw(a, warp, lane);

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
            dw.row[r] = (const raw *)s.ring[at[r].slot] + dw.in_ring;
        dw.tile = (float *)s.tile[tile.slot] + dw.in_tile;
        dw.odd = false;
        if (finite)
            dw.segment();
        else
            dw.segment_tested(a, strip.x0 + dw.x, strip.first + row - a.pad_top);
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
