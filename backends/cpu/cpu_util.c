/* What the algorithms share: threads, memory, weights as floats, choice of instruction set. */
#include "cpu_kernels.h"

#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __SSE__
#include <xmmintrin.h>
#endif

const cpu_kernels *dsconv_cpu_best_kernels(void) {
#ifdef CPU_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &dsconv_cpu_kernels_avx512;
    /* Every processor with AVX2 and FMA also has F16C. */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &dsconv_cpu_kernels_avx2;
#endif
    return &dsconv_cpu_kernels_portable;
}

int dsconv_cpu_threads(const cpu_plan *plan) {
#ifdef _OPENMP
    if (!dsconv_in_forked_child() && !omp_in_parallel())
        return plan->threads;
#endif
    (void)plan;
    return 1;
}

/* Work with subnormals as zero, in operands and results, when asked to. */
static void call(const cpu_plan *plan, cpu_work work, const void *arguments, int thread,
                 int threads) {
#ifdef __SSE__
    unsigned before = _mm_getcsr();
    if (plan->flush_denormals)
        _mm_setcsr(before | 0x8040);
    work(arguments, thread, threads);
    if (plan->flush_denormals)
        _mm_setcsr(before);
#else
    (void)plan;
    work(arguments, thread, threads);
#endif
}

void dsconv_cpu_parallel(const cpu_plan *plan, cpu_work work, const void *arguments) {
    int threads = dsconv_cpu_threads(plan);
    if (threads <= 1) {
        call(plan, work, arguments, 0, 1);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
    call(plan, work, arguments, omp_get_thread_num(), omp_get_num_threads());
#endif
}

void dsconv_cpu_barrier(void) {
#ifdef _OPENMP
#pragma omp barrier
#endif
}

void *dsconv_cpu_alloc(int64_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)(64 + 255), &bytes))
        return NULL;
    bytes &= ~(size_t)255;
    void *memory = aligned_alloc(256, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void *dsconv_cpu_plan_alloc(cpu_plan *plan, int64_t count, size_t size) {
    void *memory = plan->blocks < CPU_PLAN_BLOCKS ? dsconv_cpu_alloc(count, size) : NULL;
    if (memory)
        plan->block[plan->blocks++] = memory;
    else
        plan->out_of_memory = true;
    return memory;
}

void dsconv_cpu_plan_release(cpu_plan *plan) {
    if (plan->algo->destroy)
        plan->algo->destroy(plan);
    while (plan->blocks > 0)
        free(plan->block[--plan->blocks]);
}

void dsconv_cpu_to_float(float *destination, const void *source, int64_t count, dsconv_dtype type) {
    dsconv_cpu_kernels_portable.to_float(destination, source, count, type);
}

void dsconv_cpu_from_float(void *destination, const float *source, int64_t count,
                           dsconv_dtype type) {
    dsconv_cpu_kernels_portable.from_float(destination, source, count, type);
}
