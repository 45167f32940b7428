/*
 * Fused convolution on Hopper where no strip of sm90_rows.h suits: any image, one or many.
 *
 * A block has 8 to 64 output pixels, in runs of four of a row, x up to 128 outputs. All its threads
 * write mid into shared memory, all channels or a chunk; then each warp multiplies 16 or 32
 * outputs, with weights that come from memory straight into registers, the first before mid is
 * begun. Blocks that have the same pixels are a cluster: each computes a part of mid for all of
 * them. Every problem, any strides; offsets in an image fit 32 bits.
 */
#ifndef DSCONV_CUDA_SMALL_H
#define DSCONV_CUDA_SMALL_H

#include "../gpu/gpu_value.h"
#include "small_depthwise.h"
#include "small_mma.h"

/* How a block of PIXELS is divided among its warps. */
template <int Pixels> struct small_size {
    static constexpr int PIXELS = Pixels, RUNS = Pixels / SMALL_RUN;
    static constexpr int HALVES = Pixels > 32 ? 2 : 1; /* of the pixels, a warp each */
    static constexpr int TILES = Pixels / 8 / HALVES, ROWS = HALVES;
    static constexpr int OUTPUTS = 16 * ROWS; /* of a warp */
};

/* Where the outputs of a lane's pixel lie in y or the residual, the first that of channel 0. */
__device__ __forceinline__ int64_t small_offset(const gpu_strides &strides, const small_run &at,
                                                int q) {
    return at.n * strides.n + (at.p * (int)strides.h + q * (int)strides.w);
}

/* A lane's outputs of one tile: its pixels' in channel `output`, then in the next. */
template <class T> struct small_outputs {
    const small_args &s;
    int first_run, output, column; /* column: of a run's four */

    /* Calls back with index into four values, pixel's run, column of y. */
    template <class Call> __device__ __forceinline__ void each(int tile, Call call) const {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const small_run at(s, first_run + tile * 2 + i);
            const int q = at.q + column * s.gap.divisor;
            if (at.exists && q < (int)s.conv.q)
                call(i, at, q);
        }
    }
    __device__ __forceinline__ void load(float (&v)[4], int tile) const {
        const gpu_conv &a = s.conv;
        each(tile, [&](int i, const small_run &at, int q) {
            const int64_t from = small_offset(a.rs, at, q) + output * (int)a.rs.c;
            v[i] = gpu_load<T>(a.residual, from);
            if (output + 1 < (int)a.k)
                v[i + 2] = gpu_load<T>(a.residual, from + (int)a.rs.c);
        });
    }
    /* At once where two outputs are a word. */
    __device__ __forceinline__ void store(const float (&v)[4], int tile) const {
        const gpu_conv &a = s.conv;
        const bool both = output + 1 < (int)a.k;
        each(tile, [&](int i, const small_run &at, int q) {
            struct alignas(2 * sizeof(typename T::raw)) {
                typename T::raw v[2];
            } word = {{T::store(v[i]), T::store(v[i + 2])}};
            typename T::raw *const to =
                (typename T::raw *)a.y + (small_offset(a.ys, at, q) + output * (int)a.ys.c);
            if (s.pairs && both) {
                *(decltype(word) *)to = word;
            } else {
                to[0] = word.v[0];
                if (both)
                    to[a.ys.c] = word.v[1];
            }
        });
    }
};

/* Finishes a lane's sums of two outputs and stores them. All residuals are read first: they may be
 * y's own, and then come at once. */
template <class T, int TILES>
__device__ __forceinline__ void small_finish(const small_args &s, const float (&sum)[TILES][4],
                                             const float (&bias)[2], int first_run, int output,
                                             int lane) {
    const gpu_conv &a = s.conv;
    if (output >= (int)a.k)
        return;
    const small_outputs<T> outputs = {s, first_run, output, lane % 4};
    float residual[TILES][4] = {};
    if (a.residual_kind != DSCONV_RESIDUAL_NONE)
#pragma unroll
        for (int t = 0; t < TILES; t++)
            outputs.load(residual[t], t);
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        float v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = sum[t][i] + bias[i / 2];
            if (a.residual_kind == DSCONV_RESIDUAL_BEFORE_ACT)
                v[i] += residual[t][i];
        }
        if (!s.out_bound)
            small_activate_four(a.act_out, v[0], v[1], v[2], v[3]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[i] = clamp_f32(v[i], s.out_low, s.out_high);
            if (a.residual_kind == DSCONV_RESIDUAL_AFTER_ACT)
                v[i] += residual[t][i];
        }
        outputs.store(v, t);
    }
}

/* Sends the block's part of the tile to the other blocks of the cluster and waits for theirs. The
 * word behind a part's first step says whether it has a value that must not be split; so does the
 * result for all of them. */
template <class Tile>
__device__ __forceinline__ bool small_share(Tile tile, const small_part &part, int part_steps,
                                            int steps, int cluster, int rank, bool odd,
                                            uint64_t *barrier, int phase) {
    constexpr int STEP_BYTES = Tile::PITCH * 4;
    fence_async();
    odd = __syncthreads_or(odd);
    const int thread = (int)threadIdx.x, bytes = (part.end - part.begin) * STEP_BYTES;
    if (thread == 0) {
        if (bytes > 0)
            *tile.odd(part.begin) = odd;
        fence_async();
        barrier_arrive_and_expect(barrier, steps * STEP_BYTES - bytes);
    }
    __syncwarp();
    if (thread < cluster && thread != rank && bytes > 0) {
        const uint32_t from = shared_address(tile.word(0, part.begin, 0));
        cluster_copy(cluster_address(from, thread), from, bytes,
                     cluster_address(shared_address(barrier), thread));
    }
    barrier_wait(barrier, phase);
    for (int step = 0; step < steps; step += part_steps)
        odd |= *tile.odd(step) != 0;
    return odd;
}

/* A warp of the pointwise stage: its outputs' sums and weights. */
template <class Numerics, class Size> struct small_warp {
    typedef small_tile<Numerics, Size::PIXELS> tile;
    typedef small_sums<Numerics, tile, Size::ROWS, Size::TILES> sums_type;
    typedef typename sums_type::fragments fragments;
    static constexpr int ROWS = Size::ROWS, UNIT = sums_type::STEPS * SMALL_EIGHT;
    static constexpr int WORDS = fragments::WORDS * 32;

    int lane, half, output; /* of the lane's */
    bool exists[2];         /* rows of 16 outputs */
    sums_type sums = {};
    fragments weights[ROWS] = {};
    float bias[ROWS][2] = {};
    const uint4 *next; /* weights, of the first row */
    int row_words;

    __device__ __forceinline__ small_warp(const small_args &s, int first_output)
        : lane((int)threadIdx.x % 32), half((int)threadIdx.x / 32 % Size::HALVES),
          row_words(s.channels / UNIT * WORDS) {
        const int of_block = (int)threadIdx.x / 32 / Size::HALVES * Size::OUTPUTS;
        const int first = first_output + of_block;
        exists[0] = of_block < s.outputs && first < s.conv.k;
        exists[1] = exists[0] && first + 16 < s.conv.k;
        output = first + lane / 4 * 2;
        next = s.weights + (int64_t)(first / 16) * row_words;
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            if (lane == 0 && exists[m])
                cache_prefetch(next + m * row_words, row_words * 16);
    }

    __device__ __forceinline__ void load_bias(const gpu_conv &a) {
#pragma unroll
        for (int i = 0; i < ROWS * 2; i++)
            if (output + i / 2 * 16 + i % 2 < (int)a.k)
                bias[i / 2][i % 2] = a.weights.bias_pw[output + i / 2 * 16 + i % 2];
    }

    __device__ __forceinline__ void load() {
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            if (exists[m])
                weights[m].load(next + m * row_words, lane);
    }

    /* Adds 64 channels from `first` on, which are those of step `base` of the warp's part of the
     * tile; loads weights ahead for as long as `more` channels are to come. */
    __device__ __forceinline__ void multiply(const small_args &s, tile own, int first, int base,
                                             int more, bool odd, bool whole) {
        float result[ROWS][Size::TILES][4];
        uint32_t replaced = whole ? ~0U : 0;
        if (odd)
#pragma unroll
            for (int m = 0; m < ROWS; m++) {
#pragma unroll
                for (int i = 0; i < Size::TILES * 4; i++)
                    result[m][i / 4][i % 4] = sums.d[m][i / 4][i % 4];
                replaced |=
                    sums.unsplit(result[m], s.conv, own, first, base, output + m * 16, lane);
            }
#pragma unroll 1
        for (int unit = 0; unit < SM90_CHANNELS; unit += UNIT) {
            fragments now[ROWS];
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                now[m] = weights[m];
            next += WORDS;
            if (unit + UNIT < more)
                load();
            sums.multiply(own, now, base + unit / SMALL_EIGHT, first + unit == 0, lane);
        }
        if (odd)
            sums.replace(result, replaced);
    }

    __device__ __forceinline__ void finish(const small_args &s, int first_run) const {
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            small_finish<typename Numerics::T>(
                s, sums.d[m], bias[m], first_run + half * Size::TILES * 2, output + m * 16, lane);
    }
};

template <class Numerics, class Window, class Size>
__global__ void __launch_bounds__(SMALL_THREADS, 2)
    small_kernel(const __grid_constant__ small_args s) {
    extern __shared__ __align__(16) float memory[];
    __shared__ uint64_t barrier;
    const small_tile<Numerics, Size::PIXELS> tile = {memory};
    const int block = (int)(blockIdx.x % s.output_blocks);
    const int first_run = (int)(blockIdx.x / s.output_blocks) * Size::RUNS;
    const int rank = s.cluster > 1 ? cluster_rank() : 0;
    /* What any of these says comes late: it is not waited for before mid is computed. */
    const bool whole = s.conv.weights.extreme[1] != 0, any = s.conv.weights.extreme[0] != 0;
    /* Larger blocks need the registers for mid: their weights are loaded after it. */
    constexpr bool AHEAD = Size::ROWS == 1;

    small_warp<Numerics, Size> warp(s, block * s.outputs);
    if (AHEAD)
        warp.load();
    if (s.cluster > 1) {
        if (threadIdx.x == 0) {
            barrier_init(&barrier, 1);
            barrier_init_done();
        }
        cluster_arrive();
        cluster_wait();
    }
    for (int first = 0; first < s.channels; first += s.chunk) {
        const int channels = min(s.chunk, s.channels - first), steps = channels / SMALL_EIGHT;
        const int part_steps = (steps - 1) / s.cluster + 1;
        const small_part part = {first, min(rank * part_steps, steps),
                                 min((rank + 1) * part_steps, steps),
                                 s.conv.mid && block < s.cluster};
        bool odd = small_depthwise<Numerics, Window, Size::RUNS>(s, tile, first_run, part);
        if (any) {
            __syncthreads();
            odd = small_depthwise_any<Numerics, Size::RUNS>(s, tile, first_run, part);
        }
        odd = s.cluster > 1 ? small_share(tile, part, part_steps, steps, s.cluster, rank, odd,
                                          &barrier, first / s.chunk & 1)
                            : __syncthreads_or(odd);
        if (warp.exists[0]) {
            if (!AHEAD)
                warp.load();
            if (first == 0)
                warp.load_bias(s.conv);
#pragma unroll 1
            for (int at = 0; at < channels; at += SM90_CHANNELS)
                warp.multiply(s, {tile.word(warp.half * Size::TILES * 8, 0, 0)}, first + at,
                              at / SMALL_EIGHT, (AHEAD ? s.channels - first : channels) - at,
                              odd || whole, whole);
        }
        const bool last = first + s.chunk >= s.channels;
        if (s.cluster > 1) {
            cluster_arrive();
            if (!last)
                cluster_wait();
        } else if (!last) {
            __syncthreads();
        }
    }
    if (warp.exists[0])
        warp.finish(s, first_run);
    if (s.cluster > 1) /* what the block sent has arrived */
        cluster_wait();
}

#endif
