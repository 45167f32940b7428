/*
 * The depthwise stage of the strip kernel for 16-bit storage: a warp owns 32 channels, one a lane,
 * or in NHWC 64, two a lane. Each row of x is read once, for the three rows of mid that it is part
 * of.
 */
#ifndef DSCONV_CUDA_SM90_ROLLING_H
#define DSCONV_CUDA_SM90_ROLLING_H

#include "sm90_strip.h"

/* What of the image a segment of a row of x meets: whether the row lies in it, and its left and
 * right ends from the segment's first pixel on. */
struct sm90_inside {
    bool line;
    int left, right;
};

/* A channel in a depthwise warp. */
template <class Config> struct sm90_rolling_sums : sm90_taps {
    static constexpr int V = Config::VECTOR, SEGMENT = Config::SEGMENT;

    float sum[2][SEGMENT]; /* of the next row of mid and the one after, so far */

    __device__ __forceinline__ void start(const sm90_rows_args &a, int channel) {
        load(a, channel);
#pragma unroll
        for (int i = 0; i < SEGMENT; i++)
            sum[0][i] = sum[1][i] = bias;
    }

    static __device__ __forceinline__ float tap(float value, float weight, float total,
                                                bool inside) {
        return inside ? fmaf(value, weight, total) : total;
    }

    /* Takes pixels x - 1 .. x + V of a row of x: finishes a row of mid, goes on with the next and
     * starts the one after. Weights that are not finite must not meet the zeros outside the image:
     * with TESTED, taps outside are left out. */
    template <bool TESTED, bool BOUNDED>
    __device__ __forceinline__ void take(const float (&v)[V + 2], int x, char *tile, bool &odd,
                                         const sm90_inside &at) {
        float mid[V];
#pragma unroll
        for (int m = 0; m < V; m++) {
            mid[m] = sum[0][x + m];
            sum[0][x + m] = sum[1][x + m];
            sum[1][x + m] = bias;
#pragma unroll
            for (int t = 0; t < 3; t++) {
                const int column = x + m + t - 1;
                const bool inside = !TESTED || (at.line && column >= at.left && column < at.right);
                mid[m] = tap(v[m + t], w[6 + t], mid[m], inside);
                sum[0][x + m] = tap(v[m + t], w[3 + t], sum[0][x + m], inside);
                sum[1][x + m] = tap(v[m + t], w[t], sum[1][x + m], inside);
            }
            if (BOUNDED)
                mid[m] = clamp(mid[m]);
        }
        Config::put(tile + Config::place(0, x), mid, odd);
    }
};

/* A depthwise warp. */
template <class Config, bool ChannelsLast = Config::CHANNELS_LAST> struct sm90_rolling {
    typedef typename Config::T T;
    typedef typename Config::raw raw;
    static constexpr int V = Config::VECTOR, SEGMENT = Config::SEGMENT;

    sm90_rolling_sums<Config> channel;
    int x, in_ring, in_tile; /* the segment's first pixel, and where the lane's part begins */

    struct alignas(16) vector {
        raw v[V];
    };

    __device__ __forceinline__ sm90_rolling(const sm90_rows_args &a, int warp, int lane) {
        const int c = warp % 2 * 32 + lane;
        channel.start(a, c);
        x = warp / 2 * SEGMENT;
        in_ring = c * Config::ROW + Config::MARGIN + x;
        in_tile = Config::place(c, x);
    }

    /* Takes a row of x. */
    template <bool TESTED, bool BOUNDED>
    __device__ __forceinline__ void take(const raw *row, char *tile, bool &odd,
                                         const sm90_inside &inside) {
        row += in_ring;
        tile += in_tile;
        float before = T::load(row[-1]);
        vector at = *(const vector *)row;
#pragma unroll
        for (int i = 0; i < SEGMENT; i += V) {
            vector next;
            if (i + V < SEGMENT)
                next = *(const vector *)(row + i + V);
            else
                next.v[0] = row[i + V];
            float v[V + 2];
            v[0] = before;
#pragma unroll
            for (int m = 0; m < V; m++)
                v[m + 1] = T::load(at.v[m]);
            v[V + 1] = T::load(next.v[0]);
            channel.template take<TESTED, BOUNDED>(v, i, tile, odd, inside);
            before = v[V];
            at = next;
        }
    }
};

/* The same in NHWC: the lane's two channels are neighbours in the ring [column][channel]. Every
 * other four lanes take them in turned order: 8 lanes that write to the tile at once then meet no
 * bank twice. */
template <class Config> struct sm90_rolling<Config, true> {
    typedef typename Config::T T;
    typedef typename Config::raw raw;
    static constexpr int V = Config::VECTOR;
    static_assert(Config::SEGMENT == V, "a segment is what is written at once");

    sm90_rolling_sums<Config> channel[2];
    int x, in_ring, in_tile[2], turn;

    __device__ __forceinline__ sm90_rolling(const sm90_rows_args &a, int warp, int lane) {
        turn = lane / 4 % 2 * 16; /* bits */
        x = warp * V;
        in_ring = (Config::MARGIN + x) * SM90_CHANNELS + 2 * lane;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int c = 2 * lane + (i ^ lane / 4 % 2);
            channel[i].start(a, c);
            in_tile[i] = Config::place(c, x);
        }
    }

    template <bool TESTED, bool BOUNDED>
    __device__ __forceinline__ void take(const raw *row, char *tile, bool &odd,
                                         const sm90_inside &inside) {
        uint32_t pair[V + 2];
#pragma unroll
        for (int i = 0; i < V + 2; i++) {
            pair[i] = *(const uint32_t *)(row + in_ring + (i - 1) * SM90_CHANNELS);
            pair[i] = __funnelshift_r(pair[i], pair[i], turn);
        }
#pragma unroll
        for (int c = 0; c < 2; c++) {
            float v[V + 2];
#pragma unroll
            for (int i = 0; i < V + 2; i++)
                v[i] = T::load((uint16_t)(pair[i] >> 16 * c));
            channel[c].template take<TESTED, BOUNDED>(v, 0, tile + in_tile[c], odd, inside);
        }
    }
};

template <bool TESTED, bool BOUNDED, class Config>
__device__ __forceinline__ void sm90_rolling_rows(const sm90_rows_args &a, const sm90_strip &strip,
                                                  typename Config::shared &s) {
    typedef typename Config::raw raw;
    const int warp = (int)threadIdx.x / 32 - 4, lane = (int)threadIdx.x % 32;
    sm90_rolling<Config> dw(a, warp, lane);

    sm90_place<Config::RING> at;
    sm90_place<Config::TILES> tile;
#pragma unroll 1
    for (int row = 0; row < strip.rows + 2; row++) {
        barrier_wait(&s.row_full[at.slot], at.phase);
        barrier_wait(&s.tile_empty[tile.slot], tile.phase ^ 1);
        __syncwarp();
        const int line = strip.first - a.pad_top + row, left = -(strip.x0 + dw.x);
        bool odd = false;
        dw.template take<TESTED, BOUNDED>(
            (const raw *)s.ring[at.slot], s.tile[tile.slot], odd,
            sm90_inside{line >= 0 && line < a.height, left, left + a.width});
        odd = __any_sync(~0U, odd);
        fence_async();
        __syncwarp();
        barrier_arrive_warp(&s.row_empty[at.slot], lane);
        at.advance();
        if (row < 2)
            continue; /* not whole: the next one goes to its place */
        if (lane == 0)
            s.tile_odd[tile.slot].warp[warp] = odd;
        barrier_arrive_warp(&s.tile_full[tile.slot], lane);
        tile.advance();
    }
}

template <class Config>
__device__ void sm90_rolling_warp(const sm90_rows_args &a, const sm90_strip &strip,
                                  typename Config::shared &s, bool finite) {
    if (!finite)
        sm90_rolling_rows<true, true, Config>(a, strip, s);
    else if (a.mid_low > -INFINITY)
        sm90_rolling_rows<false, true, Config>(a, strip, s);
    else
        sm90_rolling_rows<false, false, Config>(a, strip, s);
}

#endif
