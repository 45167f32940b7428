#include "onednn_threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __SSE__
#include <xmmintrin.h>

enum { FLUSH_AND_ZERO = 0x8040 };

static _Thread_local unsigned control_before;

/* The team that oneDNN gets next is the same one: OpenMP keeps its threads. */
static void set_flush(int32_t count) {
#ifdef _OPENMP
#pragma omp parallel num_threads(count)
#endif
    {
        control_before = _mm_getcsr();
        _mm_setcsr(control_before | FLUSH_AND_ZERO);
    }
    (void)count;
}

static void restore_flush(int32_t count) {
#ifdef _OPENMP
#pragma omp parallel num_threads(count)
#endif
    _mm_setcsr(control_before);
    (void)count;
}
#else
static void set_flush(int32_t count) {
    (void)count;
}

static void restore_flush(int32_t count) {
    (void)count;
}
#endif

onednn_threads onednn_threads_enter(int32_t count, int32_t flush) {
    onednn_threads threads = {.count = count, .flush = flush};
#ifdef _OPENMP
    threads.before = omp_get_max_threads();
    threads.levels_before = omp_get_max_active_levels();
    omp_set_num_threads(count);
    /* A primitive made for several threads asks for that many when it runs; with no parallel level
     * left it gets one, and the runtime touches no thread pool. */
    if (count == 1)
        omp_set_max_active_levels(0);
#endif
    if (flush)
        set_flush(count);
    return threads;
}

void onednn_threads_leave(const onednn_threads *threads) {
    if (threads->flush)
        restore_flush(threads->count);
#ifdef _OPENMP
    omp_set_num_threads(threads->before);
    omp_set_max_active_levels(threads->levels_before);
#endif
}
