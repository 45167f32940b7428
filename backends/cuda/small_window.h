/* Sums of windows for the small kernel: a run of pixels in the channels that a reader reads at
 * once.
 *
 * Columns are read once for all pixels of the run that they are part of. Outside the image they are
 * zeros, which change no sum unless a weight is Inf or NaN; small_any_window then leaves them out.
 */
#ifndef DSCONV_CUDA_SMALL_WINDOW_H
#define DSCONV_CUDA_SMALL_WINDOW_H

#include <type_traits>

#include "../gpu/gpu_depthwise.h"
#include "small_tile.h"

/* Windows of a kernel: WIDTH x WIDTH or any, with pixels of a run STRIDE taps apart along a row;
 * any at all. */
template <int Width, int Stride> struct small_square {
    static constexpr int WIDTH = Width, STRIDE = Stride;
};
template <int Stride> struct small_sliding { static constexpr int STRIDE = Stride; };
struct small_any {};

/* Eight channels, neighbours in memory, in the order of the taps. Instead of channels that do not
 * exist it reads others. */
template <class T> struct small_words {
    static constexpr int CHANNELS = SMALL_EIGHT;
    const typename T::raw *x;
    int w, column_stride, tap; /* tap: columns from a tap to the next */

    __device__ __forceinline__ small_words(const small_args &s, const small_run &at, int channel)
        : x((const typename T::raw *)s.conv.x +
            (at.n * s.conv.xs.n + min(channel, (int)s.conv.mid_channels - SMALL_EIGHT))),
          w((int)s.conv.w), column_stride((int)s.conv.xs.w), tap((int)s.conv.dil_w) {
    }
    /* A column of a row that begins at `row`, which is inside the image or not. */
    __device__ __forceinline__ void column(float (&v)[CHANNELS], bool inside, int row,
                                           int at) const {
        union {
            uint4 word[sizeof(typename T::raw) / 2];
            typename T::raw element[CHANNELS];
        } u = {};
        if (inside && (unsigned)at < (unsigned)w)
#pragma unroll
            for (int i = 0; i < (int)sizeof(typename T::raw) / 2; i++)
                u.word[i] = __ldg((const uint4 *)(x + (row + at * column_stride)) + i);
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            v[c] = T::load(u.element[c / 2 + c % 2 * 4]);
    }
};

/* Channels u and u + 4 of a step, anywhere in memory; as above where they do not exist. */
template <class T> struct small_elements {
    static constexpr int CHANNELS = 2;
    const typename T::raw *x[CHANNELS];
    int w, column_stride, tap;
    bool groups;

    __device__ __forceinline__ small_elements(const small_args &s, const small_run &at, int channel)
        : w((int)s.conv.w), column_stride((int)s.conv.xs.w), tap((int)s.conv.dil_w),
          groups(s.groups != 0) {
        const gpu_conv &a = s.conv;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            int j = min(channel + c * 4, (int)a.mid_channels - 1);
            if (a.multiplier != 1)
                j /= (int)a.multiplier;
            x[c] = (const typename T::raw *)a.x + (at.n * a.xs.n + j * (int)a.xs.c);
        }
    }
    __device__ __forceinline__ void column(float (&v)[CHANNELS], bool inside, int row,
                                           int at) const {
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            typename T::raw raw = 0;
            if (inside && (unsigned)at < (unsigned)w)
                raw = __ldg(x[c] + (row + at * column_stride));
            v[c] = T::load(raw);
        }
    }
    /* Columns from `left` on where groups are words and the first column has pad PAD. */
    template <int PAD, int COLUMNS>
    __device__ __forceinline__ void words(float (&v)[COLUMNS][CHANNELS], bool inside, int row,
                                          int left) const {
        constexpr int SHIFT = (4 - PAD % 4) % 4, GROUPS = (SHIFT + COLUMNS + 3) / 4;
        union group {
            typename std::conditional<sizeof(typename T::raw) == 4, uint4, uint2>::type word;
            typename T::raw element[4];
        };
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                const int at = left - SHIFT + g * 4;
                group u = {};
                if (inside && (unsigned)at < (unsigned)w)
                    u.word = __ldg((decltype(&u.word))(x[c] + (row + at)));
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (g * 4 + i >= SHIFT && g * 4 + i < SHIFT + COLUMNS)
                        v[g * 4 + i - SHIFT][c] = T::load(u.element[i]);
            }
    }
};

/* The taps of a reader's channels. */
template <int CHANNELS>
__device__ __forceinline__ void small_load_taps(float (&v)[CHANNELS], const float *taps) {
    if constexpr (CHANNELS == 2) {
        *(float2 *)v = __ldg((const float2 *)taps);
    } else {
        const float4 low = __ldg((const float4 *)taps), high = __ldg((const float4 *)taps + 1);
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    }
}

/* Adds a tap: pixel e's value is column first + e * STRIDE. */
template <int STRIDE, int COLUMNS, int CHANNELS>
__device__ __forceinline__ void small_add_tap(float (&sum)[SMALL_RUN][CHANNELS],
                                              const float (&column)[COLUMNS][CHANNELS], int first,
                                              const float *tap) {
    float factor[CHANNELS];
    small_load_taps(factor, tap);
#pragma unroll
    for (int e = 0; e < SMALL_RUN; e++)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            sum[e][c] = fmaf(column[first + e * STRIDE][c], factor[c], sum[e][c]);
}

/* The windows of a run: tap (0, 0) of its first pixel. */
struct small_place {
    int top, left;
    __device__ __forceinline__ small_place(const gpu_conv &a, const small_run &at)
        : top(at.p * (int)a.stride_h - (int)a.pad_top),
          left(at.q * (int)a.stride_w - (int)a.pad_left) {
    }
};

/* The smallest tap, at most `taps`, that lies at or beyond `bound`. */
__device__ __forceinline__ int small_first_tap(int origin, int bound, int dilation, int taps) {
    const int distance = max(bound - origin, 0);
    return min(dilation == 1 ? distance : (distance + dilation - 1) / dilation, taps);
}

/* Adds all taps of a square window; load(column, inside, row) reads a row's columns. */
template <class Square, int CHANNELS, class Load>
__device__ __forceinline__ void small_add_rows(const small_args &s, const float *taps,
                                               const small_place &at,
                                               float (&sum)[SMALL_RUN][CHANNELS], Load load) {
    constexpr int WIDTH = Square::WIDTH, STRIDE = Square::STRIDE;
    constexpr int COLUMNS = (SMALL_RUN - 1) * STRIDE + WIDTH;
    const gpu_conv &a = s.conv;
#pragma unroll(COLUMNS > 6 ? 1 : WIDTH) /* as many rows at once as registers hold */
    for (int r = 0; r < WIDTH; r++) {
        const int y = at.top + r * (int)a.dil_h;
        const bool inside = (unsigned)y < (unsigned)a.h;
        float column[COLUMNS][CHANNELS];
        load(column, inside, inside ? y * (int)a.xs.h : 0);
#pragma unroll
        for (int t = 0; t < WIDTH; t++)
            small_add_tap<STRIDE>(sum, column, t, taps + (r * WIDTH + t) * s.channels);
    }
}

/* Adds all taps; `taps` begins with tap 0. */
template <class Square, class Read>
__device__ __forceinline__ void small_window(Square, const small_args &s, const Read &read,
                                             const float *taps, const small_place &at,
                                             float (&sum)[SMALL_RUN][Read::CHANNELS]) {
    constexpr int COLUMNS = (SMALL_RUN - 1) * Square::STRIDE + Square::WIDTH;
    typedef float columns[COLUMNS][Read::CHANNELS];
    if constexpr (Read::CHANNELS == 2)
        if (read.groups) {
            small_add_rows<Square>(s, taps, at, sum, [&](columns &v, bool inside, int row) {
                read.template words<(Square::WIDTH - 1) / 2>(v, inside, row, at.left);
            });
            return;
        }
    small_add_rows<Square>(s, taps, at, sum, [&](columns &v, bool inside, int row) {
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            read.column(v[i], inside, row, at.left + i * read.tap);
    });
}

template <int STRIDE, class Read>
__device__ __forceinline__ void
small_window(small_sliding<STRIDE>, const small_args &s, const Read &read, const float *taps,
             const small_place &at, float (&sum)[SMALL_RUN][Read::CHANNELS]) {
    constexpr int KEPT = (SMALL_RUN - 1) * STRIDE;
    constexpr int BATCH = Read::CHANNELS == 2 ? 8 : 4 / STRIDE; /* taps at once */
    const gpu_conv &a = s.conv;
    const int dilation = (int)a.dil_w, w = (int)a.w;
    const int r_end = small_first_tap(at.top, (int)a.h, (int)a.dil_h, a.r);
    const int begin = small_first_tap(at.left + KEPT * dilation, 0, dilation, a.s);
    const int end = small_first_tap(at.left, w, dilation, a.s);
#pragma unroll 1
    for (int r = small_first_tap(at.top, 0, (int)a.dil_h, a.r); r < r_end; r++) {
        const int row = (at.top + r * (int)a.dil_h) * (int)a.xs.h;
        const float *tap = taps + (r * a.s + begin) * s.channels;
        int x = at.left + begin * dilation;
        float column[KEPT + BATCH][Read::CHANNELS];
#pragma unroll
        for (int i = 0; i < KEPT; i++, x += dilation)
            read.column(column[i], true, row, x);
#pragma unroll 1
        for (int t = begin; t < end; t += BATCH) {
#pragma unroll
            for (int i = 0; i < BATCH; i++, x += dilation)
                read.column(column[KEPT + i], true, row, x);
#pragma unroll
            for (int i = 0; i < BATCH; i++, tap += s.channels)
                if (t + i < end)
                    small_add_tap<STRIDE>(sum, column, i, tap);
#pragma unroll
            for (int i = 0; i < KEPT; i++)
#pragma unroll
                for (int c = 0; c < Read::CHANNELS; c++)
                    column[i][c] = column[BATCH + i][c];
        }
    }
}

template <class Read>
__device__ __forceinline__ void small_window(small_any, const small_args &s, const Read &read,
                                             const float *taps, const small_place &at,
                                             float (&sum)[SMALL_RUN][Read::CHANNELS]) {
    const gpu_conv &a = s.conv;
    const int dilation = (int)a.dil_w, w = (int)a.w, step = s.gap.divisor * (int)a.stride_w;
    const int r_end = small_first_tap(at.top, (int)a.h, (int)a.dil_h, a.r);
    const int begin = small_first_tap(at.left + (SMALL_RUN - 1) * step, 0, dilation, a.s);
    const int end = small_first_tap(at.left, w, dilation, a.s);
#pragma unroll 1
    for (int r = small_first_tap(at.top, 0, (int)a.dil_h, a.r); r < r_end; r++) {
        const int row = (at.top + r * (int)a.dil_h) * (int)a.xs.h;
#pragma unroll 2
        for (int t = begin; t < end; t++) {
            float factor[Read::CHANNELS], column[SMALL_RUN][Read::CHANNELS];
            small_load_taps(factor, taps + (r * a.s + t) * s.channels);
#pragma unroll
            for (int e = 0; e < SMALL_RUN; e++) {
                const int x = at.left + e * step + t * dilation;
                read.column(column[e], true, row, x);
                const bool inside = (unsigned)x < (unsigned)w;
#pragma unroll
                for (int c = 0; c < Read::CHANNELS; c++)
                    sum[e][c] = inside ? fmaf(column[e][c], factor[c], sum[e][c]) : sum[e][c];
            }
        }
    }
}

#endif
