/*
 * Vectors of VL floats for kernels that are compiled once per instruction set: AVX-512 (16),
 * AVX2 (8) and portable (4). CPU_ISA is one of avx512, avx2, portable; CPU_NAME(f) is f's name in
 * this build.
 *
 * vf holds floats, vi int32, vmask the outcome of a comparison. A `_n` form touches the first n
 * elements alone (n <= 0: none, n >= VL: all); its loads fill the rest with zero.
 */
#ifndef DSCONV_CPU_VEC_H
#define DSCONV_CPU_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dsconv/dsconv.h"

#define CPU_PASTE_(a, b) a##_##b
#define CPU_PASTE(a, b)  CPU_PASTE_(a, b)
#define CPU_NAME(f)      CPU_PASTE(dsconv_##f, CPU_ISA)
#define CPU_STR_(a)      #a
#define CPU_STR(a)       CPU_STR_(a)

#define CPU_INLINE static inline __attribute__((always_inline, unused))

/** Before a loop of at most eight turns known to the compiler: no loop remains. Clang decides by
 *  itself and warns where it would not; a sanitizer's checks would make the code too long. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CPU_UNROLL
#else
#define CPU_UNROLL _Pragma("GCC unroll 8")
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "vec_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "vec_avx2.h"
#else
#include "vec_portable.h"
#endif

/** Fetches the line of p, to be read or to be written. In assembly because GCC takes a function
 *  that only prefetches for one without effect, and drops its calls. */
CPU_INLINE void prefetch_read(const void *p) {
#if defined(__x86_64__)
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 0);
#endif
}
CPU_INLINE void prefetch_write(const void *p) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

/** Orders vf_stream before later stores. */
CPU_INLINE void stream_fence(void) {
#ifdef __SSE__
    __asm__ volatile("sfence" : : : "memory");
#endif
}

/** The bits of bf16 round to nearest even; a NaN stays a (quiet) NaN. */
CPU_INLINE vi vf_round_bf16(vf a) {
    vi bits = vf_as_vi(a);
    vi odd = vi_and(vi_shr(bits, 16), vi_set1(1));
    vi rounded = vi_shr(vi_add(bits, vi_add(odd, vi_set1(0x7fff))), 16);
    vi quiet = vi_or(vi_shr(bits, 16), vi_set1(0x40));
    return vi_select(vf_unordered(a, a), quiet, rounded);
}

CPU_INLINE size_t dtype_size(dsconv_dtype type) {
    return type == DSCONV_F32 ? 4 : 2;
}

/** Loads n elements of a storage type as floats. */
CPU_INLINE vf vf_load_as(const void *p, dsconv_dtype type, ptrdiff_t n) {
    switch (type) {
    case DSCONV_F16:
        return n >= VL ? vf_load_f16(p) : vf_load_f16_n(p, n);
    case DSCONV_BF16:
        return n >= VL ? vf_load_bf16(p) : vf_load_bf16_n(p, n);
    default:
        return n >= VL ? vf_load(p) : vf_load_n(p, n);
    }
}

/** Stores n elements rounded to a storage type. */
CPU_INLINE void vf_store_as(void *p, vf a, dsconv_dtype type, ptrdiff_t n) {
    switch (type) {
    case DSCONV_F16:
        if (n >= VL)
            vf_store_f16(p, a);
        else
            vf_store_f16_n(p, a, n);
        break;
    case DSCONV_BF16:
        if (n >= VL)
            vi_store_u16(p, vf_round_bf16(a));
        else
            vi_store_u16_n(p, vf_round_bf16(a), n);
        break;
    default:
        if (n >= VL)
            vf_store(p, a);
        else
            vf_store_n(p, a, n);
    }
}

CPU_INLINE void vf_store_bf16(uint16_t *p, vf a) {
    vi_store_u16(p, vf_round_bf16(a));
}

CPU_INLINE void vf_store_bf16_n(uint16_t *p, vf a, ptrdiff_t n) {
    vi_store_u16_n(p, vf_round_bf16(a), n);
}

#endif
