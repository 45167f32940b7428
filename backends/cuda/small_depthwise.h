/* The depthwise stage of the small kernel: a thread has some channels of a run of pixels. */
#ifndef DSCONV_CUDA_SMALL_DEPTHWISE_H
#define DSCONV_CUDA_SMALL_DEPTHWISE_H

#include "small_activation.h"
#include "small_window.h"

/* What a block computes of mid: some steps of the tile in shared memory. */
struct small_part {
    int first_channel; /* of the tile */
    int begin, end;    /* steps of 8 channels */
    bool write_mid;    /* to memory, too */
};

/* Activates a run's values; those of channels that do not exist become zeros, since no Inf or NaN
 * of x may meet the zeros that are their weights. */
template <int CHANNELS>
__device__ __forceinline__ void small_activate(const small_args &s,
                                               float (&value)[SMALL_RUN][CHANNELS], int channel) {
    if (!s.mid_bound)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            small_activate_four(s.conv.act_mid, value[0][c], value[1][c], value[2][c], value[3][c]);
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) {
        const bool exists = channel + c / 2 + c % 2 * 4 < (int)s.conv.mid_channels;
#pragma unroll
        for (int e = 0; e < SMALL_RUN; e++)
            value[e][c] = exists ? clamp_f32(value[e][c], s.mid_low, s.mid_high) : 0.0F;
    }
}

/* Writes a run's mid in a channel to memory. */
template <class T>
__device__ __noinline__ void small_write_mid(const small_args &s, small_run at, int channel,
                                             float4 value) {
    const gpu_conv &a = s.conv;
    if (!at.exists || channel >= (int)a.mid_channels)
        return;
    const int64_t row = at.n * a.ms.n + (at.p * (int)a.ms.h + channel * (int)a.ms.c);
    const float v[SMALL_RUN] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int e = 0; e < SMALL_RUN; e++) {
        const int q = at.q + e * s.gap.divisor;
        if (q < (int)a.q)
            gpu_store<T>(a.mid, row + q * (int)a.ms.w, v[e]);
    }
}

/* Mid of a run, the block's number `run`, in the channels of `step` from u on that a reader has. */
template <class Numerics, class Window, class Read, class Tile>
__device__ __forceinline__ bool small_task(const small_args &s, Tile tile, const small_part &part,
                                           const Read &read, const small_run &at, int run, int step,
                                           int u) {
    const int channel = part.first_channel + step * SMALL_EIGHT;
    const float *taps = s.taps + (channel + 2 * u);
    float sum[SMALL_RUN][Read::CHANNELS];
    small_load_taps(sum[0], taps);
#pragma unroll
    for (int e = 1; e < SMALL_RUN; e++)
#pragma unroll
        for (int c = 0; c < Read::CHANNELS; c++)
            sum[e][c] = sum[0][c];
    small_window(Window(), s, read, taps + s.channels, small_place(s.conv, at), sum);
    small_activate(s, sum, channel + u);
    if (part.write_mid)
#pragma unroll
        for (int c = 0; c < Read::CHANNELS; c++)
            small_write_mid<typename Numerics::T>(
                s, at, channel + u + c / 2 + c % 2 * 4,
                make_float4(sum[0][c], sum[1][c], sum[2][c], sum[3][c]));
    bool odd = false;
#pragma unroll
    for (int e = 0; e < SMALL_RUN; e++)
        odd |= tile.put(tile.row_of(run, e), step, u, sum[e]);
    return odd;
}

/* The block's part of mid, its threads together; a thread has the same run throughout. Whether a
 * value of the thread's must not be split. */
template <class Numerics, class Window, int RUNS, class Tile>
__device__ __forceinline__ bool small_depthwise_words(const small_args &s, Tile tile, int first_run,
                                                      const small_part &part) {
    constexpr int SHARE = SMALL_THREADS / RUNS; /* threads of a run */
    const int run = (int)threadIdx.x / SHARE;
    const small_run at(s, first_run + run);
    bool odd = false;
#pragma unroll 1
    for (int step = part.begin + (int)threadIdx.x % SHARE; step < part.end; step += SHARE) {
        const small_words<typename Numerics::T> read(s, at,
                                                     part.first_channel + step * SMALL_EIGHT);
        odd |= small_task<Numerics, Window>(s, tile, part, read, at, run, step, 0);
    }
    return odd;
}

/* The same with two channels a thread. */
template <class Numerics, class Window, int RUNS, class Tile>
__device__ __forceinline__ bool small_depthwise_pairs(const small_args &s, Tile tile, int first_run,
                                                      const small_part &part) {
    constexpr int SHARE = SMALL_THREADS / RUNS;
    const bool last = s.conv.channels_last != 0;
    const int thread = (int)threadIdx.x, u = thread % 4;
    const int run = last ? thread / SHARE : thread / 4 % RUNS;
    const int first = last ? thread % SHARE / 4 : thread / 4 / RUNS;
    const small_run at(s, first_run + run);
    bool odd = false;
#pragma unroll 1
    for (int step = part.begin + first; step < part.end; step += SHARE / 4) {
        const small_elements<typename Numerics::T> read(
            s, at, part.first_channel + step * SMALL_EIGHT + u);
        odd |= small_task<Numerics, Window>(s, tile, part, read, at, run, step, u);
    }
    return odd;
}

/* The same where a weight of the depthwise stage is Inf or NaN. */
template <class Numerics, int RUNS, class Tile>
__device__ __noinline__ bool small_depthwise_any(const small_args &s, Tile tile, int first_run,
                                                 small_part part) {
    return small_depthwise_pairs<Numerics, small_any, RUNS>(s, tile, first_run, part);
}

template <class Numerics, class Window, int RUNS, class Tile>
__device__ __forceinline__ bool small_depthwise(const small_args &s, Tile tile, int first_run,
                                                const small_part &part) {
    /* Where steps are few, pairs of channels keep more threads at work. */
    return s.words && (part.end - part.begin) * 2 * RUNS > SMALL_THREADS
               ? small_depthwise_words<Numerics, Window, RUNS>(s, tile, first_run, part)
               : small_depthwise_pairs<Numerics, Window, RUNS>(s, tile, first_run, part);
}

#endif
