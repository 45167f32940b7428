/* Elements of the three storage types, in memory and as the fp32 that all sums are made in. */
#ifndef DSCONV_GPU_VALUE_H
#define DSCONV_GPU_VALUE_H

#include "gpu_rt.h"

struct gpu_f32 {
    typedef float raw;
    static __device__ float load(raw v) {
        return v;
    }
    static __device__ raw store(float v) {
        return v;
    }
};

struct gpu_f16 {
    typedef uint16_t raw;
    static __device__ float load(raw v) {
        return gpu_f16_to_float(v);
    }
    static __device__ raw store(float v) {
        return gpu_float_to_f16(v);
    }
};

struct gpu_bf16 {
    typedef uint16_t raw;
    static __device__ float load(raw v) {
        return __uint_as_float((uint32_t)v << 16);
    }
    static __device__ raw store(float v) {
        return gpu_float_to_bf16(v);
    }
};

template <class T> __device__ inline float gpu_load(const void *base, int64_t index) {
    return T::load(((const typename T::raw *)base)[index]);
}

template <class T> __device__ inline void gpu_store(void *base, int64_t index, float value) {
    ((typename T::raw *)base)[index] = T::store(value);
}

/* Four elements in one access. */
template <class T> struct alignas(4 * sizeof(typename T::raw)) gpu_quad { typename T::raw v[4]; };

template <class T> __device__ inline bool gpu_quad_aligned(const void *base, int64_t index) {
    return ((uintptr_t)((const typename T::raw *)base + index) & (sizeof(gpu_quad<T>) - 1)) == 0;
}

#endif
