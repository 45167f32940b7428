/* The kernels of small.h for one arithmetic. Each has a source of its own, since they take long to
 * compile. */
#ifndef DSCONV_CUDA_SMALL_VARIANT_H
#define DSCONV_CUDA_SMALL_VARIANT_H

#include "small.h"

typedef void (*small_kernel_function)(small_args);

enum small_windows {
    SMALL_ANY,
    SMALL_SLIDING_STRIDE_1,
    SMALL_SLIDING_STRIDE_2,
    SMALL_3_STRIDE_1,
    SMALL_3_STRIDE_2,
    SMALL_5_STRIDE_1,
    SMALL_5_STRIDE_2,
    SMALL_WINDOWS
};

enum small_sizes { SMALL_8, SMALL_16, SMALL_32, SMALL_64, SMALL_SIZES }; /* pixels of a block */

struct cuda_small_variant {
    const char *name;
    small_kernel_function kernels[SMALL_WINDOWS][SMALL_SIZES];
    small_kernel_function pack_weights;
    bool split_mid;
};

extern const cuda_small_variant cuda_small_f32_strict, cuda_small_f32_tf32, cuda_small_f16_strict,
    cuda_small_bf16_strict;

#define SMALL_KERNELS(numerics, ...)                                                               \
    {                                                                                              \
        small_kernel<numerics, __VA_ARGS__, small_size<8>>,                                        \
            small_kernel<numerics, __VA_ARGS__, small_size<16>>,                                   \
            small_kernel<numerics, __VA_ARGS__, small_size<32>>,                                   \
            small_kernel<numerics, __VA_ARGS__, small_size<64>>                                    \
    }

/* In the order of small_windows. */
#define SMALL_VARIANT(name)                                                                        \
    const cuda_small_variant cuda_small_##name = {                                                 \
        "small_" #name,                                                                            \
        {SMALL_KERNELS(sm90_##name, small_any), SMALL_KERNELS(sm90_##name, small_sliding<1>),      \
         SMALL_KERNELS(sm90_##name, small_sliding<2>),                                             \
         SMALL_KERNELS(sm90_##name, small_square<3, 1>),                                           \
         SMALL_KERNELS(sm90_##name, small_square<3, 2>),                                           \
         SMALL_KERNELS(sm90_##name, small_square<5, 1>),                                           \
         SMALL_KERNELS(sm90_##name, small_square<5, 2>)},                                          \
        small_pack_weights<sm90_##name>,                                                           \
        sm90_##name::SPLIT_MID}

#endif
