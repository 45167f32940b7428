/* What the kernels of CDNA and RDNA share of the pointwise stage, and a block from start to end. */
#ifndef DSCONV_HIP_POINTWISE_H
#define DSCONV_HIP_POINTWISE_H

#include "../gpu/gpu_finish.h"
#include "hip_depthwise.h"
#include "hip_matrix.h"

/* Weights of CHANNELS channels from `first` on, of which `count` exist, and of the block's outputs;
 * zeros elsewhere. */
template <int CHANNELS>
__device__ void hip_load_weights(const hip_tile_args &a, const hip_block &block,
                                 float (*weights)[HIP_OUTPUTS], int first, int count, int thread) {
    const gpu_conv &c = a.conv;
    const hip_place at(a, block);
    constexpr int QUADS = HIP_OUTPUTS / 4;
#pragma unroll
    for (int i = thread; i < CHANNELS * QUADS; i += HIP_THREADS) {
        const int channel = i / QUADS, output = i % QUADS * 4;
        const int64_t from = (int64_t)(first + channel) * c.k + at.output + output;
        const int valid = channel < count ? at.outputs - output : 0;
        gpu_quad<gpu_f32> quad = {};
        if (valid >= 4 && gpu_quad_aligned<gpu_f32>(c.weights.pw, from)) {
            quad = hip_load_vector<gpu_quad<gpu_f32>>(c.weights.pw + from);
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++)
                quad.v[e] = e < valid ? c.weights.pw[from + e] : 0.0F;
        }
        *(gpu_quad<gpu_f32> *)&weights[channel][output] = quad;
    }
}

/* Where a sum is staged on its way out, such that both sides meet no bank conflicts. */
__device__ inline int hip_sum_index(bool channels_last, int output, int pixel) {
    return channels_last ? pixel * HIP_STAGED_OUTPUTS + (output ^ (pixel & 7) << 2)
                         : output * HIP_PIXELS + pixel;
}

/* Finishes and stores the sums of HIP_STAGED_OUTPUTS outputs from `first` of the block's on. */
template <class T>
__device__ void hip_store_sums(const hip_tile_args &args, const hip_block &block, const float *sums,
                               int first, int thread) {
    const bool last = args.conv.channels_last != 0;
#pragma unroll 1
    for (int i = thread; i < HIP_STAGED_OUTPUTS * HIP_PIXELS / 4; i += HIP_THREADS) {
        const int output = last ? i % (HIP_STAGED_OUTPUTS / 4) * 4 : i / (HIP_PIXELS / 4);
        const int number = last ? i / (HIP_STAGED_OUTPUTS / 4) : i % (HIP_PIXELS / 4) * 4;
        const gpu_quad<gpu_f32> sum =
            *(const gpu_quad<gpu_f32> *)&sums[hip_sum_index(last, output, number)];
        float value[4];
        int64_t to[4];
        bool exists[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const hip_tile_args &a = gpu_reload(args);
            const gpu_conv &c = a.conv;
            const hip_place at(a, block);
            const hip_pixel pixel(a, last ? number : number + e);
            const int64_t n = at.image + pixel.image, p = at.p + pixel.row, q = at.q + pixel.column,
                          k = at.output + first + output + (last ? e : 0);
            exists[e] = k < c.k && pixel.exists(a, at);
            to[e] = n * c.ys.n + k * c.ys.c + p * c.ys.h + q * c.ys.w;
            if (exists[e])
                value[e] = gpu_finish<T>(c, sum.v[e] + c.weights.bias_pw[k],
                                         n * c.rs.n + k * c.rs.c + p * c.rs.h + q * c.rs.w);
        }
        const gpu_conv &c = gpu_reload(args).conv;
        if (exists[3] && to[3] == to[0] + 3 && to[1] == to[0] + 1 && to[2] == to[0] + 2 &&
            exists[0] && gpu_quad_aligned<T>(c.y, to[0])) {
            gpu_quad<T> quad;
#pragma unroll
            for (int e = 0; e < 4; e++)
                quad.v[e] = T::store(value[e]);
            hip_store_vector((typename T::raw *)c.y + to[0], quad);
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (exists[e])
                gpu_store<T>(c.y, to[e], value[e]);
    }
}

/* One chunk of channels from `first` on, up to the product's operands in shared memory. */
template <class T, int CHANNELS>
__device__ void hip_load_chunk(const hip_tile_args &args, const hip_block &block,
                               hip_shared<CHANNELS> &shared, int first, int count, int thread) {
    for (int begin = 0; begin < count;) {
        const hip_tile_args &a = gpu_reload(args);
        const int channels = count - begin < a.step ? count - begin : a.step;
        if (a.conv.channels_last)
            hip_stage_channels<T>(a, block, shared.patch, first + begin, channels, thread);
        else
            hip_stage_rows<T>(a, block, shared.patch, first + begin, channels, thread);
        __syncthreads();
        hip_depthwise(gpu_reload(args), block, shared.patch, shared.mid + begin, first + begin,
                      channels, thread);
        begin += channels;
        if (begin < count)
            __syncthreads();
    }
    const hip_tile_args &a = gpu_reload(args);
    hip_load_weights<CHANNELS>(a, block, shared.weights, first, count, thread);
    for (int i = count * HIP_PIXELS + thread; i < CHANNELS * HIP_PIXELS; i += HIP_THREADS)
        shared.mid[i / HIP_PIXELS][i % HIP_PIXELS] = 0.0F;
    __syncthreads();
    if (a.conv.act_mid.kind > DSCONV_ACT_RELU6 || a.conv.mid) {
        hip_finish_mid<T>(a, block, shared.mid, first, count, thread);
        __syncthreads();
    }
}

/* The whole of a block. Matrix holds its sums: put(sums, i, channels_last) stages the i-th
 * HIP_STAGED_OUTPUTS outputs. */
template <class T, class Matrix>
__device__ void hip_tile_run(const hip_tile_args &args, hip_shared<Matrix::CHANNELS> &shared) {
    constexpr int CHANNELS = Matrix::CHANNELS;
    const hip_block block(gpu_reload(args));
    const int thread = (int)threadIdx.x;
    const bool extreme = gpu_reload(args).conv.weights.extreme[1] != 0;
    Matrix matrix;
    for (int first = 0;; first += CHANNELS) {
        const hip_tile_args &a = gpu_reload(args);
        const int left = (int)a.conv.mid_channels - first;
        if (left <= 0)
            break;
        hip_load_chunk<T>(a, block, shared, first, left < CHANNELS ? left : CHANNELS, thread);
        hip_add(matrix, shared, extreme);
    }
#pragma unroll 1
    for (int i = 0; i < HIP_OUTPUTS / HIP_STAGED_OUTPUTS; i++) {
        const hip_tile_args &a = gpu_reload(args);
        __syncthreads();
        matrix.put(shared.sums, i, a.conv.channels_last != 0);
        __syncthreads();
        hip_store_sums<T>(a, block, shared.sums, i * HIP_STAGED_OUTPUTS, thread);
    }
}

#endif
