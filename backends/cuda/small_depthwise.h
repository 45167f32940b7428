/* The depthwise stage of the small kernel: a thread has eight channels of a few pixels. */
#ifndef DSCONV_CUDA_SMALL_DEPTHWISE_H
#define DSCONV_CUDA_SMALL_DEPTHWISE_H

#include "../gpu/gpu_activation.h"
#include "../gpu/gpu_depthwise.h"
#include "sm90_mma.h"

enum { SMALL_THREADS = 256, SMALL_EIGHT = 8 };

struct small_args {
    gpu_conv conv;
    const float *taps;    /* [1 + r * s][channels]: biases, then the windows, then zeros */
    const uint4 *weights; /* [output / 16][channel / 8][lane]: operand A as the lanes hold it */
    int channels;         /* of mid, a multiple of 64 */
    int chunk;            /* channels of mid that shared memory holds, a multiple of 64 */
    int outputs;          /* of a block, a multiple of 16 up to 128 */
    int eights;           /* whether eight channels of x are 16-byte words */
};

/* Mid in shared memory: of each pixel, steps of 8 channels; in a step the words that a lane has of
 * operand B: channels u and u + 4, and what rounding took from them. Which word is which u changes
 * with the step and the pixel so that neither stage meets bank conflicts. */
template <class Numerics> struct small_tile {
    static constexpr int WORD = Numerics::SPLIT_MID ? 4 : 2, STEP = 4 * WORD;
    static constexpr int TURN = Numerics::SPLIT_MID ? 2 : 4;
    float *at;
    int pitch; /* of pixels */

    static __host__ __device__ int pitch_of(int channels) {
        return channels / 8 * STEP + STEP;
    }
    __device__ __forceinline__ float *word(int pixel, int step, int u) const {
        return at + pixel * pitch + step * STEP + ((u ^ step / TURN ^ pixel / TURN) & 3) * WORD;
    }
    __device__ __forceinline__ float *value(int pixel, int channel) const {
        return word(pixel, channel / 8, channel % 4) + channel / 4 % 2;
    }

    /* Writes eight channels; whether one must not be split. */
    __device__ __forceinline__ bool put(int pixel, int step,
                                        const float (&value)[SMALL_EIGHT]) const {
        float high[SMALL_EIGHT], low[SMALL_EIGHT];
        bool odd = false;
#pragma unroll
        for (int c = 0; c < SMALL_EIGHT; c++)
            sm90_split(value[c], high[c], low[c], odd);
#pragma unroll
        for (int u = 0; u < 4; u++) {
            float *to = word(pixel, step, u);
            if constexpr (Numerics::SPLIT_MID)
                *(float4 *)to = make_float4(high[u], high[u + 4], low[u], low[u + 4]);
            else
                *(float2 *)to = make_float2(high[u], high[u + 4]);
        }
        return odd;
    }
};

/* How a thread reads a tap of eight channels: whole words, or one by one with any stride. */
template <class T> struct small_words {
    const typename T::raw *x;
    __device__ small_words(const gpu_conv &a, int channel)
        : x((const typename T::raw *)a.x + channel) {
    }
    __device__ __forceinline__ void operator()(float (&v)[SMALL_EIGHT], int offset) const {
        union {
            uint4 word[sizeof(typename T::raw) / 2];
            typename T::raw element[SMALL_EIGHT];
        } u;
#pragma unroll
        for (int i = 0; i < (int)sizeof(typename T::raw) / 2; i++)
            u.word[i] = __ldg((const uint4 *)(x + offset) + i);
#pragma unroll
        for (int c = 0; c < SMALL_EIGHT; c++)
            v[c] = T::load(u.element[c]);
    }
};

template <class T> struct small_elements {
    const typename T::raw *x;
    int plane[SMALL_EIGHT];
    __device__ small_elements(const gpu_conv &a, int channel) : x((const typename T::raw *)a.x) {
#pragma unroll
        for (int c = 0; c < SMALL_EIGHT; c++) {
            int j = channel + c < (int)a.mid_channels ? channel + c : (int)a.mid_channels - 1;
            plane[c] = (a.multiplier == 1 ? j : j / (int)a.multiplier) * (int)a.xs.c;
        }
    }
    __device__ __forceinline__ void operator()(float (&v)[SMALL_EIGHT], int offset) const {
#pragma unroll
        for (int c = 0; c < SMALL_EIGHT; c++)
            v[c] = T::load(__ldg(x + (offset + plane[c])));
    }
};

__device__ __forceinline__ int small_clamp(int i, int size) {
    return min(max(i, 0), size - 1);
}

/* Sums of PIXELS windows in eight channels. Taps outside the image are read from its border and
 * not added. WINDOW: 3 or 5 squared, or 0 for any. */
template <int WINDOW, int PIXELS> struct small_windows {
    static constexpr int BATCH = WINDOW ? WINDOW : 4; /* taps loaded before they are used */
    int image[PIXELS], top[PIXELS], left[PIXELS];
    int mid[PIXELS];

    __device__ small_windows(const gpu_conv &a, int64_t first) {
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            const gpu_pixel at(a, first + i);
            const int n = (int)at.n, p = (int)at.p, q = (int)at.q;
            image[i] = n * (int)a.xs.n;
            top[i] = p * (int)a.stride_h - (int)a.pad_top;
            left[i] = q * (int)a.stride_w - (int)a.pad_left;
            mid[i] = n * (int)a.ms.n + p * (int)a.ms.h + q * (int)a.ms.w;
        }
    }

    /* Taps first .. first + BATCH - 1 of row r. */
    template <class Read>
    __device__ __forceinline__ void add(const small_args &s, const Read &read, const float *taps,
                                        int r, int first, float (&sum)[PIXELS][SMALL_EIGHT]) const {
        const gpu_conv &a = s.conv;
        const int h = (int)a.h, w = (int)a.w, width = WINDOW ? WINDOW : a.s;
        int row[PIXELS];
        bool row_inside[PIXELS];
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            const int y = top[i] + r * (int)a.dil_h;
            row_inside[i] = (unsigned)y < (unsigned)h;
            row[i] = image[i] + small_clamp(y, h) * (int)a.xs.h;
        }
#pragma unroll
        for (int t = 0; t < BATCH; t++) {
            const bool exists = WINDOW || first + t < width;
            const int tap = r * width + (exists ? first + t : width - 1);
            const float4 *weights = (const float4 *)(taps + tap * s.channels);
            const float4 low = __ldg(weights), high = __ldg(weights + 1);
            const float factor[SMALL_EIGHT] = {low.x,  low.y,  low.z,  low.w,
                                               high.x, high.y, high.z, high.w};
#pragma unroll
            for (int i = 0; i < PIXELS; i++) {
                const int x = left[i] + (first + t) * (int)a.dil_w;
                const bool inside = row_inside[i] && (unsigned)x < (unsigned)w && exists;
                float v[SMALL_EIGHT];
                read(v, row[i] + small_clamp(x, w) * (int)a.xs.w);
#pragma unroll
                for (int c = 0; c < SMALL_EIGHT; c++)
                    sum[i][c] = inside ? fmaf(v[c], factor[c], sum[i][c]) : sum[i][c];
            }
        }
    }

    template <class Read>
    __device__ __forceinline__ void sums(const small_args &s, const Read &read, const float *taps,
                                         float (&sum)[PIXELS][SMALL_EIGHT]) const {
        const gpu_conv &a = s.conv;
#pragma unroll
        for (int i = 0; i < PIXELS; i++)
#pragma unroll
            for (int c = 0; c < SMALL_EIGHT; c++)
                sum[i][c] = taps[c];
        taps += s.channels;
        if constexpr (WINDOW == 3) {
#pragma unroll
            for (int r = 0; r < WINDOW; r++)
                add(s, read, taps, r, 0, sum);
            return;
        }
        int r_begin = a.r, r_end = 0, s_begin = a.s, s_end = 0;
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            r_begin = min(r_begin, gpu_first_tap(top[i], 0, a.dil_h, a.r));
            r_end = max(r_end, gpu_first_tap(top[i], a.h, a.dil_h, a.r));
            s_begin = min(s_begin, gpu_first_tap(left[i], 0, a.dil_w, a.s));
            s_end = max(s_end, gpu_first_tap(left[i], a.w, a.dil_w, a.s));
        }
#pragma unroll 1
        for (int r = r_begin; r < r_end; r++) {
            if constexpr (WINDOW != 0)
                add(s, read, taps, r, 0, sum);
            else
#pragma unroll 1
                for (int tap = s_begin; tap < s_end; tap += BATCH)
                    add(s, read, taps, r, tap, sum);
        }
    }
};

/* Activates eight channels of a pixel from `channel` on, those that exist; writes mid. */
template <class T>
__device__ __forceinline__ void small_activate(const gpu_conv &a, float (&value)[SMALL_EIGHT],
                                               int channel, int mid, bool write_mid) {
    const int count = (int)a.mid_channels - channel;
#pragma unroll
    for (int c = 0; c < SMALL_EIGHT; c++) {
        value[c] = c < count ? gpu_activate_small(a.act_mid, value[c]) : 0.0F;
        if (write_mid && c < count)
            gpu_store<T>(a.mid, mid + (channel + c) * (int)a.ms.c, value[c]);
    }
}

/* Of PIXELS pixels from `pixel` of the block on. */
template <class Numerics, int WINDOW, int PIXELS, class Read>
__device__ __forceinline__ bool
small_depthwise_task(const small_args &s, const small_tile<Numerics> &tile, int64_t first_pixel,
                     int pixel, int first_channel, int step, bool write_mid) {
    const gpu_conv &a = s.conv;
    const int channel = first_channel + step * SMALL_EIGHT;
    const small_windows<WINDOW, PIXELS> windows(a, first_pixel + pixel);
    float sum[PIXELS][SMALL_EIGHT];
    windows.sums(s, Read(a, channel), s.taps + channel, sum);
    bool odd = false;
#pragma unroll
    for (int i = 0; i < PIXELS; i++) {
        small_activate<typename Numerics::T>(a, sum[i], channel, windows.mid[i],
                                             write_mid && first_pixel + pixel + i < a.pixels);
        odd |= tile.put(pixel + i, step, sum[i]);
    }
    return odd;
}

/* Mid of PIXELS pixels in `channels` channels from `first_channel` on, the block's threads
 * together. Whether a value of the thread's must not be split. */
template <class Numerics, int WINDOW, int PIXELS>
__device__ __forceinline__ bool
small_depthwise(const small_args &s, const small_tile<Numerics> &tile, int64_t first_pixel,
                int first_channel, int channels, bool write_mid) {
    typedef typename Numerics::T T;
    const int existing = (int)s.conv.mid_channels - first_channel;
    const int steps = channels / SMALL_EIGHT;
    bool odd = false;
    if (s.eights) {
        constexpr int SHARE = 2; /* pixels of a thread: they share loaded weights */
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < steps * (PIXELS / SHARE); i += SMALL_THREADS) {
            const int step = i % steps, pixel = i / steps * SHARE;
            if (step * SMALL_EIGHT < existing)
                odd |= small_depthwise_task<Numerics, WINDOW, SHARE, small_words<T>>(
                    s, tile, first_pixel, pixel, first_channel, step, write_mid);
            else
                for (int e = 0; e < SHARE; e++)
                    tile.put(pixel + e, step, {});
        }
        return odd;
    }
    const bool last = s.conv.channels_last != 0;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < steps * PIXELS; i += SMALL_THREADS) {
        const int step = last ? i % steps : i / PIXELS, pixel = last ? i / steps : i % PIXELS;
        if (step * SMALL_EIGHT < existing)
            odd |= small_depthwise_task<Numerics, WINDOW, 1, small_elements<T>>(
                s, tile, first_pixel, pixel, first_channel, step, write_mid);
        else
            tile.put(pixel, step, {});
    }
    return odd;
}

#endif
