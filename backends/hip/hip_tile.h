/* A block's tile of output pixels, and how a problem is cut into tiles: images x rows x columns of
 * output pixels, each a power of two. */
#ifndef DSCONV_HIP_TILE_H
#define DSCONV_HIP_TILE_H

#include <string.h>

#include "../gpu/gpu_conv.h"
#include "../gpu/gpu_value.h"

enum { HIP_THREADS = 256, HIP_LOG_PIXELS = 7, HIP_PIXELS = 1 << HIP_LOG_PIXELS };
enum { HIP_OUTPUTS = 128, HIP_STAGED_OUTPUTS = 32 };
enum { HIP_PATCH = 3072 };  /* floats staged at a time */
enum { HIP_LOG_SLIDE = 2 }; /* of the rows that a thread slides down at most */

/* Division of numbers below HIP_PATCH by a constant of that size. */
struct hip_divisor {
    int by;
    uint32_t inverse; /* 2^24 / by, rounded up */

    __device__ int divide(int number) const {
        return (int)((uint64_t)(uint32_t)number * inverse >> 24);
    }
};

/* How a problem is cut into tiles. */
struct hip_tile {
    int64_t batch;
    int tiles_q, tiles_p, output_tiles;
    int log_columns, log_rows, log_images; /* of a tile, HIP_PIXELS pixels */
    int plane, step;                     /* floats staged per channel; channels staged at a time */
    int columns;                         /* staged per row: whole vectors of 16 bytes of x */
    int vector_mask;                     /* elements of one, less one */
    hip_divisor patch_rows, row_vectors; /* staged per image; of a row */
    hip_divisor channel_vectors;         /* of a pixel, where channels are last */
    float mid_low, mid_high;             /* bounds that act_mid sets, if it is that simple */
};

struct hip_tile_args : hip_tile {
    gpu_conv conv;
};

/* Shared memory of a block. */
template <int CHANNELS> struct hip_shared {
    union {
        struct {
            alignas(16) float patch[HIP_PATCH];
            alignas(16) float mid[CHANNELS][HIP_PIXELS];
            alignas(16) float weights[CHANNELS][HIP_OUTPUTS];
        };
        alignas(16) float sums[HIP_STAGED_OUTPUTS * HIP_PIXELS];
    };
};

/* A vector's bytes, to be loaded or stored in one access: AMD's compiler takes structures apart and
 * puts them together again as it likes. */
template <class V> struct hip_bytes {
#if defined(__HIP_PLATFORM_NVIDIA__)
    typedef V type;
#else
    typedef uint32_t type __attribute__((vector_size(sizeof(V)), may_alias));
#endif
};

template <class V> __device__ V hip_load_vector(const void *from) {
    typename hip_bytes<V>::type bytes = *(const typename hip_bytes<V>::type *)from;
#if defined(__HIP_PLATFORM_AMD__) && defined(__HIP_DEVICE_COMPILE__)
    asm("" : "+v"(bytes)); /* else some of it is loaded again by itself */
#endif
    V value;
    memcpy(&value, &bytes, sizeof value);
    return value;
}

template <class V> __device__ void hip_store_vector(void *to, const V &value) {
    if (sizeof(V) < 16) { /* is not taken apart, and clang 15 would use scratch */
        *(V *)to = value;
        return;
    }
    typename hip_bytes<V>::type bytes;
    memcpy(&bytes, &value, sizeof value);
    *(typename hip_bytes<V>::type *)to = bytes;
}

/* 16 bytes of x. */
template <class T> struct hip_vector {
    static constexpr int SIZE = 16 / (int)sizeof(typename T::raw);
    alignas(16) typename T::raw v[SIZE];
};

/* A block's tile, by numbers. */
struct hip_block {
    int image, p, q, output;

    __device__ explicit hip_block(const hip_tile_args &a) {
        unsigned block = blockIdx.x;
        output = (int)(block % (unsigned)a.output_tiles);
        block /= (unsigned)a.output_tiles;
        q = (int)(block % (unsigned)a.tiles_q);
        block /= (unsigned)a.tiles_q;
        p = (int)(block % (unsigned)a.tiles_p);
        image = (int)(block / (unsigned)a.tiles_p);
    }
};

/* Where it lies. */
struct hip_place {
    int64_t image, p, q; /* the first output pixel */
    int64_t output;
    int outputs;
    int64_t top, left; /* of the first pixel's window */
    int shift;         /* columns staged left of it, to start at a vector */

    __device__ hip_place(const hip_tile_args &a, const hip_block &block) {
        const gpu_conv &c = a.conv;
        image = (int64_t)block.image << a.log_images;
        p = (int64_t)block.p << a.log_rows;
        q = (int64_t)block.q << a.log_columns;
        output = (int64_t)block.output * HIP_OUTPUTS;
        outputs = c.k - output < HIP_OUTPUTS ? (int)(c.k - output) : (int)HIP_OUTPUTS;
        top = p * c.stride_h - c.pad_top;
        left = q * c.stride_w - c.pad_left;
        shift = c.channels_last ? 0 : (int)left & a.vector_mask;
    }
};

/* A pixel of the tile by its number. */
struct hip_pixel {
    int image, row, column;

    __device__ hip_pixel(const hip_tile_args &a, int number) {
        column = number & ((1 << a.log_columns) - 1);
        row = number >> a.log_columns & ((1 << a.log_rows) - 1);
        image = number >> (a.log_columns + a.log_rows);
    }
    __device__ bool exists(const hip_tile_args &a, const hip_place &at) const {
        return at.image + image < a.batch && at.p + row < a.conv.p && at.q + column < a.conv.q;
    }
};

#endif
