/*
 * Fused convolution on Hopper where no strip of sm90_rows.h suits; made for one image and small
 * images, where latency is what counts.
 *
 * A block has 8 to 32 output pixels (of the row of all n * p * q) x up to 128 outputs. All its
 * threads write mid into shared memory, all channels or a chunk; then each warp multiplies 16
 * outputs, with weights that come from memory straight into registers, the first before mid is
 * begun. Every problem, any strides; offsets fit 32 bits.
 */
#ifndef DSCONV_CUDA_SMALL_H
#define DSCONV_CUDA_SMALL_H

#include "../gpu/gpu_finish.h"
#include "small_mma.h"

/* Finishes a lane's sums and stores them, two at a time where they are neighbours in memory. */
template <class Numerics, int TILES>
__device__ __forceinline__ void small_finish(const gpu_conv &a, small_sums<Numerics, TILES> &sums,
                                             int64_t first_pixel, int64_t output, int lane) {
    typedef typename Numerics::T T;
    if (output >= a.k)
        return;
    const bool both = output + 1 < a.k;
    const float bias[2] = {a.weights.bias_pw[output], both ? a.weights.bias_pw[output + 1] : 0.0F};
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int64_t number = first_pixel + t * 8 + lane % 4 * 2 + e;
            if (number >= a.pixels)
                continue;
            const gpu_pixel at(a, number);
            const int64_t y = at.n * a.ys.n + at.p * a.ys.h + at.q * a.ys.w + output * a.ys.c;
            const int64_t residual =
                at.n * a.rs.n + at.p * a.rs.h + at.q * a.rs.w + output * a.rs.c;
            const float first = gpu_finish<T>(a, sums.d[t][e] + bias[0], residual);
            if (both)
                gpu_store<T>(a.y, y + a.ys.c,
                             gpu_finish<T>(a, sums.d[t][e + 2] + bias[1], residual + a.rs.c));
            gpu_store<T>(a.y, y, first);
        }
}

template <class Numerics, int WINDOW, int TILES>
__global__ void __launch_bounds__(SMALL_THREADS, 2)
    small_kernel(const __grid_constant__ small_args s) {
    constexpr int PIXELS = TILES * 8;
    extern __shared__ __align__(16) float memory[];
    const gpu_conv &a = s.conv;
    const small_tile<Numerics> tile = {memory, small_tile<Numerics>::pitch_of(s.chunk)};
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int output_tiles = ((int)a.k - 1) / s.outputs + 1;
    const int64_t first_pixel = (int64_t)(blockIdx.x / output_tiles) * PIXELS;
    const int first_output = (int)(blockIdx.x % output_tiles) * s.outputs;
    const int warp_output = first_output + warp * 16, output = warp_output + lane / 4 * 2;
    const bool busy = warp * 16 < s.outputs && warp_output < a.k;
    const bool whole = a.weights.extreme[1] != 0;

    typedef small_sums<Numerics, TILES> sums_type;
    typedef typename sums_type::fragments fragments;
    constexpr int WORDS = fragments::WORDS * 32;
    sums_type sums = {};
    fragments weights = {};
    const uint4 *next = s.weights + (int64_t)(warp_output / 16) * (s.channels / 64) * WORDS;
    if (busy)
        weights.load(next, lane);

    for (int first = 0; first < s.channels; first += s.chunk) {
        const int channels = min(s.chunk, s.channels - first);
        bool odd = small_depthwise<Numerics, WINDOW, PIXELS>(s, tile, first_pixel, first, channels,
                                                             a.mid && first_output == 0);
        odd = __syncthreads_or(odd) || whole;
        if (busy)
#pragma unroll 1
            for (int at = 0; at < channels; at += 64) {
                fragments now = weights;
                next += WORDS;
                if (first + at + 64 < s.channels)
                    weights.load(next, lane);
                if (odd)
                    sums.multiply_odd(a, tile, now, first + at, at / 8, output, whole, lane);
                else
                    sums.multiply(tile, now, at / 8, first + at == 0, lane);
            }
        if (first + s.chunk < s.channels)
            __syncthreads();
    }
    if (busy)
        small_finish(a, sums, first_pixel, output, lane);
}

#endif
