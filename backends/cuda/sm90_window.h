/*
 * The depthwise stage of the strip kernel for f32: a warp owns 32 channels, one a lane, or in NHWC
 * 64, two a lane, and slides along the three input rows of an output row.
 */
#ifndef DSCONV_CUDA_SM90_WINDOW_H
#define DSCONV_CUDA_SM90_WINDOW_H

#include "sm90_strip.h"

/* A depthwise warp. */
template <class Config, bool ChannelsLast = Config::CHANNELS_LAST> struct sm90_window {
    typedef typename Config::T T;
    typedef typename Config::raw raw;
    static constexpr int V = Config::VECTOR, CHANNELS = 1;

    sm90_taps taps[CHANNELS];
    int x, in_ring, in_tile; /* the segment's first pixel, and where the lane's part begins */
    const raw *row[3];       /* this lane's channel, at the segment's first pixel */
    float *tile;
    bool odd;

    __device__ __forceinline__ sm90_window(const sm90_rows_args &a, int warp, int lane) {
        const int channel = warp % 2 * 32 + lane;
        taps[0].load(a, channel);
        x = warp / 2 * Config::SEGMENT;
        in_ring = channel * Config::ROW + Config::MARGIN + x;
        in_tile = sm90_channel<Config>(channel) + x * 4;
    }

    __device__ __forceinline__ void load(int r, int column, float (&v)[1]) const {
        v[0] = T::load(row[r][column]);
    }

    template <bool BOUNDED> __device__ __forceinline__ void put(int pixel, const float (&sum)[1]) {
        sm90_put<Config>(tile + sm90_column(pixel), BOUNDED ? taps[0].clamp(sum[0]) : sum[0], odd);
    }

    struct alignas(16) vector {
        raw v[V];
    };

    /* Slides along the row, V pixels at a time. */
    template <bool BOUNDED> __device__ __forceinline__ void segment() {
        float left[3];
        vector at[3];
#pragma unroll
        for (int r = 0; r < 3; r++) {
            left[r] = T::load(row[r][-1]);
            at[r] = *(const vector *)row[r];
        }
#pragma unroll
        for (int i = 0; i < Config::SEGMENT; i += V) {
            float sum[V][1];
#pragma unroll
            for (int m = 0; m < V; m++)
                sum[m][0] = taps[0].bias;
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
                        sum[m][0] = fmaf(v[m + t], taps[0].w[3 * r + t], sum[m][0]);
                left[r] = v[V];
                at[r] = next;
            }
#pragma unroll
            for (int m = 0; m < V; m++)
                put<BOUNDED>(i + m, sum[m]);
        }
    }
};

/* The same in NHWC: the lane's two channels are neighbours, in the ring [column][channel] and in
 * the tile, whose columns are the pixels in order. */
template <class Config> struct sm90_window<Config, true> {
    typedef typename Config::raw raw;
    static_assert(sizeof(raw) == 4, "f32");

    static constexpr int CHANNELS = 2;

    sm90_taps taps[CHANNELS];
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

    __device__ __forceinline__ void load(int r, int column, float (&v)[2]) const {
        const float2 pair = *(const float2 *)(row[r] + column * SM90_CHANNELS);
        v[0] = pair.x;
        v[1] = pair.y;
    }

    template <bool BOUNDED> __device__ __forceinline__ void put(int pixel, const float (&sum)[2]) {
        const float mid[2] = {BOUNDED ? taps[0].clamp(sum[0]) : sum[0],
                              BOUNDED ? taps[1].clamp(sum[1]) : sum[1]};
        sm90_put<Config>(tile + pixel * 4, mid, odd); /* 8 pixels x 4 channels: a core matrix */
    }

    template <bool BOUNDED> __device__ __forceinline__ void segment() {
        float v[3][3][2]; /* of three rows, columns by their number modulo 3 */
#pragma unroll
        for (int r = 0; r < 3; r++) {
            load(r, -1, v[r][0]);
            load(r, 0, v[r][1]);
        }
#pragma unroll
        for (int pixel = 0; pixel < Config::SEGMENT; pixel++) {
            float sum[2] = {taps[0].bias, taps[1].bias};
#pragma unroll
            for (int r = 0; r < 3; r++) {
                load(r, pixel + 1, v[r][(pixel + 2) % 3]);
#pragma unroll
                for (int t = 0; t < 3; t++)
#pragma unroll
                    for (int c = 0; c < 2; c++)
                        sum[c] = fmaf(v[r][(pixel + t) % 3][c], taps[c].w[3 * r + t], sum[c]);
            }
            put<BOUNDED>(pixel, sum);
        }
    }
};

/* A segment with every tap tested: weights that are not finite must not meet the zeros outside the
 * image. (x0, y): the segment's first pixel, the window's first row. */
template <class Config>
__device__ __forceinline__ void sm90_segment_tested(sm90_window<Config> &dw,
                                                    const sm90_rows_args &a, int x0, int y) {
    constexpr int CHANNELS = sm90_window<Config>::CHANNELS;
#pragma unroll 1
    for (int pixel = 0; pixel < Config::SEGMENT; pixel++) {
        float sum[CHANNELS], v[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            sum[c] = dw.taps[c].bias;
#pragma unroll
        for (int i = 0; i < 9; i++) {
            const int column = x0 + pixel + i % 3 - 1, line = y + i / 3;
            if (column < 0 || column >= a.width || line < 0 || line >= a.height)
                continue;
            dw.load(i / 3, pixel + i % 3 - 1, v);
#pragma unroll
            for (int c = 0; c < CHANNELS; c++)
                sum[c] = fmaf(v[c], dw.taps[c].w[i], sum[c]);
        }
        dw.template put<true>(pixel, sum);
    }
}

template <bool TESTED, bool BOUNDED, class Config>
__device__ __forceinline__ void sm90_window_rows(const sm90_rows_args &a, const sm90_strip &strip,
                                                 typename Config::shared &s) {
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
        if (TESTED)
            sm90_segment_tested(dw, a, strip.x0 + dw.x, strip.first + row - a.pad_top);
        else
            dw.template segment<BOUNDED>();
        const bool odd = __any_sync(~0U, dw.odd);
        fence_async();
        __syncwarp();
        if (lane == 0)
            s.tile_odd[tile.slot].warp[warp] = odd;
        barrier_arrive_warp(&s.tile_full[tile.slot], lane);
        barrier_arrive_warp(&s.row_empty[at[0].slot], lane);
        at[0] = at[1];
        at[1] = at[2];
        at[2].advance();
        tile.advance();
    }
}

template <class Config>
__device__ void sm90_window_warp(const sm90_rows_args &a, const sm90_strip &strip,
                                 typename Config::shared &s, bool finite) {
    if (!finite)
        sm90_window_rows<true, true, Config>(a, strip, s);
    else if (a.mid_low > -INFINITY)
        sm90_window_rows<false, true, Config>(a, strip, s);
    else
        sm90_window_rows<false, false, Config>(a, strip, s);
}

#endif
