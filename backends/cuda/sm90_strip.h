/* What the parts of the strip kernel (sm90_rows.h) share: arguments, sizes, the strip of a block.
 */
#ifndef DSCONV_CUDA_SM90_STRIP_H
#define DSCONV_CUDA_SM90_STRIP_H

#include "../gpu/gpu_conv.h"
#include "sm90_half.h"
#include "sm90_mma.h"

struct sm90_rows_args {
    CUtensorMap x, y;
    gpu_weights weights;
    int channels, outputs; /* of the problem */
    int height, width;     /* of x */
    int out_height, pad_top;
    int strips, bands, band_rows, output_tiles; /* blocks = n * strips * bands * output_tiles */
    float mid_low, mid_high, out_low, out_high; /* activations as bounds */
};

/* Bounds on both sides; a NaN stays a NaN. */
__device__ __forceinline__ float sm90_clamp(float v, float low, float high) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(low));
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(high));
    return v;
}

/* ChannelsLast: NHWC. Registers: of a thread in a depthwise and in an MMA warpgroup. */
template <class Numerics, bool ChannelsLast, int Groups, int Ring, int Tiles, int Stages,
          int DepthwiseRegisters, int MmaRegisters>
struct sm90_rows_config : Numerics {
    typedef typename Numerics::T T;
    typedef typename T::raw raw;
    using Numerics::TILE_BYTES;
    static constexpr bool CHANNELS_LAST = ChannelsLast;
    static constexpr int GROUPS = Groups; /* depthwise warpgroups */
    static constexpr int RING = Ring, TILES = Tiles, STAGES = Stages;
    static constexpr int DEPTHWISE_REGISTERS = DepthwiseRegisters, MMA_REGISTERS = MmaRegisters;
    static constexpr int VECTOR = 16 / sizeof(raw); /* elements per access */
    /* Columns in the ring: left of the strip, and all. */
    static constexpr int MARGIN = CHANNELS_LAST ? 1 : VECTOR;
    static constexpr int ROW = CHANNELS_LAST ? SM90_PIXELS + 2 : sizeof(raw) == 4 ? 76 : 88;
    static constexpr int ROW_BYTES = SM90_CHANNELS * ROW * (int)sizeof(raw);
    static constexpr int STAGE_BYTES = 64 * SM90_PIXELS * (int)sizeof(raw);
    /* Outputs in a box of the staging buffer: NHWC has rows of 128 bytes, swizzled. */
    static constexpr int BOX = CHANNELS_LAST ? 128 / (int)sizeof(raw) : 64;
    static constexpr int BOXES = 64 / BOX;
    static constexpr int THREADS = 128 * (3 + GROUPS);
    static constexpr int ENTRY_REGISTERS = 65536 / THREADS / 8 * 8;
    /* Of a depthwise warp: channels, one a lane or in NHWC two, and pixels of every row. */
    static constexpr int WARP_CHANNELS = CHANNELS_LAST ? 64 : 32;
    static constexpr int SEGMENT = SM90_PIXELS * SM90_CHANNELS / WARP_CHANNELS / (4 * GROUPS);

    /* In this order: with `stage` first, exact math on f32 took 5 % longer on an H200. */
    struct shared {
        alignas(128) char ring[RING][ROW_BYTES];
        alignas(128) char tile[TILES][TILE_BYTES];
        alignas(1024) char stage[2][STAGES][STAGE_BYTES];
        uint64_t row_full[RING], row_empty[RING], tile_full[TILES], tile_empty[TILES];
        sm90_odd tile_odd[TILES];
    };
};

/* A channel's taps, zeros where there is none, and the bounds of mid. */
struct sm90_taps {
    float w[9], bias, low, high;

    __device__ __forceinline__ void load(const sm90_rows_args &a, int channel) {
        const bool used = channel < a.channels;
#pragma unroll
        for (int i = 0; i < 9; i++)
            w[i] = used ? a.weights.dw[channel * 9 + i] : 0.0F;
        bias = used ? a.weights.bias_dw[channel] : 0.0F;
        low = a.mid_low;
        high = a.mid_high;
    }

    __device__ __forceinline__ float clamp(float v) const {
        return sm90_clamp(v, low, high);
    }
};

/* What one block does: image n, output rows first .. first + rows - 1, columns from x0. */
struct sm90_strip {
    int n, x0, first, rows, output;

    __device__ explicit sm90_strip(const sm90_rows_args &a) {
        int b = (int)blockIdx.x;
        output = b % a.output_tiles * SM90_OUTPUTS;
        b /= a.output_tiles;
        x0 = b % a.strips * SM90_PIXELS;
        b /= a.strips;
        first = b % a.bands * a.band_rows;
        n = b / a.bands;
        rows = min(a.band_rows, a.out_height - first);
    }
};

#endif
