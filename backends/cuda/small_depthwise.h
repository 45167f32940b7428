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

/* Activates a run's values, but for channels that do not exist. */
template <int CHANNELS>
__device__ __forceinline__ void small_activate(const small_args &s,
                                               float (&value)[SMALL_RUN][CHANNELS], int channel) {
    if (s.mid_bound) {
#pragma unroll
        for (int i = 0; i < SMALL_RUN * CHANNELS; i++) {
            float &v = value[i / CHANNELS][i % CHANNELS];
            v = clamp_f32(v, s.mid_low, s.mid_high);
        }
        return;
    }
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) {
        const bool exists = channel + c / 2 + c % 2 * 4 < (int)s.conv.mid_channels;
        float v[4];
#pragma unroll
        for (int e = 0; e < SMALL_RUN; e++)
            v[e] = value[e][c];
        small_activate_four(s.conv.act_mid, v);
#pragma unroll
        for (int e = 0; e < SMALL_RUN; e++)
            value[e][c] = exists ? v[e] : 0.0F;
    }
}

/* Writes a run's mid to memory, from `channel` on. */
template <class T, int CHANNELS>
__device__ __forceinline__ void small_write_mid(const gpu_conv &a, const small_run &at,
                                                const float (&value)[SMALL_RUN][CHANNELS], int gap,
                                                int channel) {
    const int64_t row = at.n * a.ms.n + at.p * (int)a.ms.h;
#pragma unroll
    for (int i = 0; i < SMALL_RUN * CHANNELS; i++) {
        const int q = at.q + i / CHANNELS * gap, c = i % CHANNELS, j = channel + c / 2 + c % 2 * 4;
        if (at.exists && q < (int)a.q && j < (int)a.mid_channels)
            gpu_store<T>(a.mid, row + (q * (int)a.ms.w + j * (int)a.ms.c), value[i / CHANNELS][c]);
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
        small_write_mid<typename Numerics::T>(s.conv, at, sum, s.gap.divisor, channel + u);
    bool odd = false;
#pragma unroll
    for (int e = 0; e < SMALL_RUN; e++)
        odd |= tile.put(tile.row_of(run, e), step, u, sum[e]);
    return odd;
}

/* The block's part of mid, its threads together; a thread has the same run throughout. Whether a
 * value of the thread's must not be split. */
template <class Numerics, class Window, int RUNS, class Tile>
__device__ __forceinline__ bool small_depthwise(const small_args &s, Tile tile, int first_run,
                                                const small_part &part) {
    constexpr int SHARE = SMALL_THREADS / RUNS; /* threads of a run */
    const gpu_conv &a = s.conv;
    const int thread = (int)threadIdx.x;
    bool odd = false;
    /* Where steps are few, pairs of channels keep more threads at work. */
    if (s.words && (part.end - part.begin) * 2 > SHARE) {
        const int run = thread / SHARE;
        const small_run at(s, first_run + run);
#pragma unroll 1
        for (int step = part.begin + thread % SHARE; step < part.end; step += SHARE) {
            const small_words<typename Numerics::T> read(s, at,
                                                         part.first_channel + step * SMALL_EIGHT);
            odd |= small_task<Numerics, Window>(s, tile, part, read, at, run, step, 0);
        }
        return odd;
    }
    const int u = thread % 4;
    const int run = a.channels_last ? thread / SHARE : thread / 4 % RUNS;
    const int first = a.channels_last ? thread % SHARE / 4 : thread / 4 / RUNS;
    const small_run at(s, first_run + run);
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
    return small_depthwise<Numerics, small_any, RUNS>(s, tile, first_run, part);
}

#endif
