/*
 * The depthwise stage of a tile. For a few channels at a time, what their windows cover is staged
 * in shared memory, by 16-byte loads where alignment allows, with zeros outside the image. Threads
 * then slide down the columns of one channel and write mid, which lives in shared memory only.
 */
#ifndef DSCONV_HIP_DEPTHWISE_H
#define DSCONV_HIP_DEPTHWISE_H

#include "../gpu/gpu_activation.h"
#include "../gpu/gpu_depthwise.h"
#include "hip_tile.h"

/* Loads a vector along a row, zeros outside it. */
template <class T>
__device__ hip_vector<T> hip_load_row(const gpu_conv &c, int64_t row, int64_t column) {
    constexpr int SIZE = hip_vector<T>::SIZE;
    const typename T::raw *from = (const typename T::raw *)c.x + (row + column * c.xs.w);
    if (c.xs.w == 1 && column >= 0 && column + SIZE <= c.w && ((uintptr_t)from & 15) == 0)
        return hip_load_vector<hip_vector<T>>(from);
    hip_vector<T> value;
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        value.v[i] = column + i >= 0 && column + i < c.w ? from[i * c.xs.w] : T::store(0.0F);
    return value;
}

/* Stages `count` channels of mid's numbering from `first` on, pixels last in memory. */
template <class T>
__device__ void hip_stage_rows(const hip_tile_args &a, const hip_block &block, float *patch,
                               int first, int count, int thread) {
    const hip_place at(a, block);
    constexpr int SIZE = hip_vector<T>::SIZE, LANES = 64;
    const gpu_conv &c = a.conv;
    const int vectors = a.row_vectors.by * a.patch_rows.by << a.log_images;
    for (int i = thread % LANES; i < vectors; i += LANES) {
        const int line = a.row_vectors.divide(i), column = i - line * a.row_vectors.by;
        const int image = a.patch_rows.divide(line), row = line - image * a.patch_rows.by;
        const int64_t n = at.image + image, h = at.top + row;
        const int64_t w = at.left - at.shift + column * SIZE;
        const bool inside = n < a.batch && h >= 0 && h < c.h && w + SIZE > 0 && w < c.w;
        for (int channel = thread / LANES; channel < count; channel += HIP_THREADS / LANES) {
            const int j = first + channel;
            const int64_t plane = (c.multiplier == 1 ? j : j / c.multiplier) * c.xs.c;
            hip_vector<T> value = {};
            if (inside)
                value = hip_load_row<T>(c, n * c.xs.n + plane + h * c.xs.h, w);
#pragma unroll
            for (int e = 0; e < SIZE; e += 4) {
                gpu_quad<gpu_f32> quad;
#pragma unroll
                for (int f = 0; f < 4; f++)
                    quad.v[f] = T::load(value.v[e + f]);
                *(gpu_quad<gpu_f32> *)&patch[channel * a.plane + i * SIZE + e] = quad;
            }
        }
    }
}

/* Loads a vector of `count` channels of one pixel, zeros past them. */
template <class T>
__device__ hip_vector<T> hip_load_channels(const gpu_conv &c, int64_t pixel, int first, int count) {
    constexpr int SIZE = hip_vector<T>::SIZE;
    const typename T::raw *from = (const typename T::raw *)c.x + (pixel + first * c.xs.c);
    if (c.xs.c == 1 && c.multiplier == 1 && count >= SIZE && ((uintptr_t)from & 15) == 0)
        return hip_load_vector<hip_vector<T>>(from);
    hip_vector<T> value;
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        value.v[i] =
            i < count ? ((const typename T::raw *)c.x)[pixel + (first + i) / c.multiplier * c.xs.c]
                      : T::store(0.0F);
    return value;
}

/* The same where channels are last in memory. */
template <class T>
__device__ void hip_stage_channels(const hip_tile_args &a, const hip_block &block, float *patch,
                                   int first, int count, int thread) {
    const hip_place at(a, block);
    constexpr int SIZE = hip_vector<T>::SIZE;
    const gpu_conv &c = a.conv;
    const int vectors = (a.patch_rows.by * a.columns << a.log_images) * a.channel_vectors.by;
    for (int i = thread; i < vectors; i += HIP_THREADS) {
        const int pixel = a.channel_vectors.divide(i);
        const int channel = (i - pixel * a.channel_vectors.by) * SIZE;
        const int line = a.row_vectors.divide(pixel / SIZE), column = pixel - line * a.columns;
        const int image = a.patch_rows.divide(line), row = line - image * a.patch_rows.by;
        const int64_t n = at.image + image, h = at.top + row, w = at.left + column;
        hip_vector<T> value = {};
        if (channel < count && n < a.batch && h >= 0 && h < c.h && w >= 0 && w < c.w)
            value = hip_load_channels<T>(c, n * c.xs.n + h * c.xs.h + w * c.xs.w, first + channel,
                                         count - channel);
#pragma unroll
        for (int e = 0; e < SIZE; e++)
            if (channel + e < count)
                patch[(channel + e) * a.plane + pixel] = T::load(value.v[e]);
    }
}

/* Where the windows of one column of one channel, some rows of them, lie in shared memory. */
struct hip_slide {
    int channel, rows;
    int64_t top, left; /* of the first window in x */
    const float *from;
    float *to;

    __device__ hip_slide(const hip_tile_args &a, const hip_place &at, const float *patch,
                         float (*mid)[HIP_PIXELS], int number) {
        const gpu_conv &c = a.conv;
        const int log_slides = hip_slide::log_slides(a);
        const int column = number & ((1 << a.log_columns) - 1);
        const int line = number >> a.log_columns;
        const int row = (line & ((1 << log_slides) - 1)) << HIP_LOG_SLIDE;
        const int image = line >> log_slides & ((1 << a.log_images) - 1);
        channel = line >> (log_slides + a.log_images);
        rows = 1 << (a.log_rows - log_slides);
        top = at.top + row * c.stride_h;
        left = at.left + column * c.stride_w;
        from = patch + (channel * a.plane + at.shift + column * (int)c.stride_w +
                        (image * a.patch_rows.by + row * (int)c.stride_h) * a.columns);
        to = &mid[channel][(((image << a.log_rows) + row) << a.log_columns) + column];
    }
    /* Of a column of the tile. */
    static __device__ int log_slides(const hip_tile_args &a) {
        return a.log_rows > HIP_LOG_SLIDE ? a.log_rows - HIP_LOG_SLIDE : 0;
    }
    static __device__ int log_per_channel(const hip_tile_args &a) {
        return log_slides(a) + a.log_columns + a.log_images;
    }
    /* Keeps a NaN. */
    __device__ void put(const hip_tile_args &a, int row, float v) const {
        to[row << a.log_columns] = v < a.mid_low ? a.mid_low : v > a.mid_high ? a.mid_high : v;
    }
};

/* Windows of WINDOW x WINDOW finite taps, so that the zeros outside the image do no harm. */
template <int WINDOW> struct hip_window {
    /* With neither stride nor dilation from row to row, each row is read once for all windows. */
    static __device__ void slide(const hip_tile_args &a, const hip_slide &s, const float *weights,
                                 float bias) {
        float w[WINDOW * WINDOW], sum[WINDOW] = {};
        const int tap = (int)a.conv.dil_w;
#pragma unroll
        for (int i = 0; i < WINDOW * WINDOW; i++)
            w[i] = weights[i];
        const float *from = s.from;
        for (int row = 1 - WINDOW; row < s.rows; row++, from += a.columns) {
            float value[WINDOW];
#pragma unroll
            for (int i = 0; i < WINDOW; i++)
                value[i] = from[i * tap];
#pragma unroll
            for (int r = WINDOW - 1; r >= 0; r--) { /* sum[r] is that of the window r rows above */
                sum[r] = r > 0 ? sum[r - 1] : bias;
#pragma unroll
                for (int i = 0; i < WINDOW; i++)
                    sum[r] = fmaf(value[i], w[r * WINDOW + i], sum[r]);
            }
            if (row >= 0)
                s.put(a, row, sum[WINDOW - 1]);
        }
    }

    static __device__ void step(const hip_tile_args &a, const hip_slide &s, const float *weights,
                                float bias) {
        const gpu_conv &c = a.conv;
        const int tap = (int)c.dil_w, line = (int)c.dil_h * a.columns;
        for (int row = 0; row < s.rows; row++) {
            const float *from = s.from + row * (int)c.stride_h * a.columns;
            float sum = bias;
#pragma unroll
            for (int r = 0; r < WINDOW; r++)
#pragma unroll
                for (int i = 0; i < WINDOW; i++)
                    sum = fmaf(from[r * line + i * tap], weights[r * WINDOW + i], sum);
            s.put(a, row, sum);
        }
    }
};

/* Windows of any size and taps: those outside the image are passed over. */
__device__ inline void hip_any_window(const hip_tile_args &a, const hip_slide &s,
                                      const float *weights, float bias) {
    const gpu_conv &c = a.conv;
    const int begin = gpu_first_tap(s.left, 0, c.dil_w, c.s);
    const int end = gpu_first_tap(s.left, c.w, c.dil_w, c.s);
    for (int row = 0; row < s.rows; row++) {
        const int64_t top = s.top + row * c.stride_h;
        const int r_end = gpu_first_tap(top, c.h, c.dil_h, c.r);
        float sum = bias;
        for (int r = gpu_first_tap(top, 0, c.dil_h, c.r); r < r_end; r++) {
            const float *from = s.from + (row * (int)c.stride_h + r * (int)c.dil_h) * a.columns;
            for (int i = begin; i < end; i++)
                sum = fmaf(from[i * (int)c.dil_w], weights[r * c.s + i], sum);
        }
        s.put(a, row, sum);
    }
}

/* The depthwise stage: `count` channels from `first` on, into as many rows of mid. */
__device__ inline void hip_depthwise(const hip_tile_args &args, const hip_block &block,
                                     const float *patch, float (*mid)[HIP_PIXELS], int64_t first,
                                     int count, int thread) {
    const int units = count << hip_slide::log_per_channel(args);
    for (int i = thread; i < units; i += HIP_THREADS) {
        const hip_tile_args &a = gpu_reload(args);
        const gpu_conv &c = a.conv;
        const hip_slide s(a, hip_place(a, block), patch, mid, i);
        const int j = first + s.channel;
        const float *weights = c.weights.dw + (int64_t)j * (c.r * c.s);
        const float bias = c.weights.bias_dw[j];
        const int window = c.r == c.s && !c.weights.extreme[0] ? c.r : 0;
        const bool slides = c.stride_h == 1 && c.dil_h == 1;
        if (window == 3 && slides)
            hip_window<3>::slide(a, s, weights, bias);
        else if (window == 3)
            hip_window<3>::step(a, s, weights, bias);
        else if (window == 5 && slides)
            hip_window<5>::slide(a, s, weights, bias);
        else if (window == 5)
            hip_window<5>::step(a, s, weights, bias);
        else if (window == 7 && slides)
            hip_window<7>::slide(a, s, weights, bias);
        else
            hip_any_window(gpu_reload(args), s, weights, bias);
    }
}

/* What is left of mid: activations that are not simple, and its own output. */
template <class T>
__device__ void hip_finish_mid(const hip_tile_args &args, const hip_block &block,
                               float (*mid)[HIP_PIXELS], int first, int count, int thread) {
#pragma unroll 1
    for (int i = thread; i < count * HIP_PIXELS; i += HIP_THREADS) {
        const hip_tile_args &a = gpu_reload(args);
        const gpu_conv &c = a.conv;
        const hip_place at(a, block);
        float &value = mid[i / HIP_PIXELS][i % HIP_PIXELS];
        if (a.conv.act_mid.kind > DSCONV_ACT_RELU6)
            value = gpu_activate(c.act_mid, value);
        const hip_pixel pixel(a, i % HIP_PIXELS);
        if (c.mid && at.output == 0 && pixel.exists(a, at))
            gpu_store<T>(c.mid,
                         (at.image + pixel.image) * c.ms.n + (first + i / HIP_PIXELS) * c.ms.c +
                             (at.p + pixel.row) * c.ms.h + (at.q + pixel.column) * c.ms.w,
                         value);
    }
}

#endif
