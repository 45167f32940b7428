/* Compiled once for each instruction set, with multiplication and addition fused where it can. */
#include "ceilings.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)     TEXT_(a)

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif
enum { LANES = VECTOR_BYTES / (int)sizeof(float) };

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

static vector splat(float value) {
    return (vector){0} + value;
}

/* Keeps the compiler from dropping what led to v. */
static void consume(vector v) {
    __asm__ volatile("" : : "m"(v));
}

/* Twelve chains hide the latency of two units, and fit in 16 registers. */
static void multiply_add(int64_t steps) {
    const vector m = splat(0.999F), q = splat(0.001F);
    vector a0 = splat(0), a1 = splat(1), a2 = splat(2), a3 = splat(3), a4 = splat(4), a5 = splat(5),
           a6 = splat(6), a7 = splat(7), a8 = splat(8), a9 = splat(9), a10 = splat(10),
           a11 = splat(11);
    for (int64_t i = 0; i < steps; i++) {
        a0 = a0 * m + q;
        a1 = a1 * m + q;
        a2 = a2 * m + q;
        a3 = a3 * m + q;
        a4 = a4 * m + q;
        a5 = a5 * m + q;
        a6 = a6 * m + q;
        a7 = a7 * m + q;
        a8 = a8 * m + q;
        a9 = a9 * m + q;
        a10 = a10 * m + q;
        a11 = a11 * m + q;
    }
    consume(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11);
}

/* size is a multiple of four vectors in all three. */
static void read_memory(const void *from, size_t size) {
    const vector *v = from;
    vector a0 = splat(0), a1 = a0, a2 = a0, a3 = a0;
    for (size_t i = 0; i < size / VECTOR_BYTES; i += 4) {
        a0 += v[i];
        a1 += v[i + 1];
        a2 += v[i + 2];
        a3 += v[i + 3];
    }
    consume(a0 + a1 + a2 + a3);
}

static void write_memory(void *to, size_t size) {
    vector *v = to;
    for (size_t i = 0; i < size / VECTOR_BYTES; i++)
        v[i] = splat(0.5F);
}

static void store_past_cache(float *to) {
#if defined(__AVX512F__)
    _mm512_stream_ps(to, _mm512_set1_ps(0.5F));
#elif defined(__AVX__)
    _mm256_stream_ps(to, _mm256_set1_ps(0.5F));
#elif defined(__x86_64__)
    _mm_stream_ps(to, _mm_set1_ps(0.5F));
#else
    *(vector *)to = splat(0.5F);
#endif
}

static void write_past_cache(void *to, size_t size) {
    for (size_t i = 0; i < size / sizeof(float); i += LANES)
        store_past_cache((float *)to + i);
#ifdef __x86_64__
    _mm_sfence();
#endif
}

const ceiling_kernels JOIN(ceiling_kernels, CPU_ISA) = {
    .isa = TEXT(CPU_ISA),
    .flops_per_step = 2.0 * 12 * LANES,
    .multiply_add = multiply_add,
    .read = read_memory,
    .write = write_memory,
    .write_past_cache = write_past_cache,
};
