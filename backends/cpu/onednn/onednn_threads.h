/* The number of OpenMP threads that oneDNN takes, for a while, in the calling thread. */
#ifndef DSCONV_ONEDNN_THREADS_H
#define DSCONV_ONEDNN_THREADS_H

#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>

typedef struct onednn_threads {
    int count, levels;
} onednn_threads;

/* A primitive made for several threads asks for that many when it runs; with no parallel level
 * left it gets one, and the runtime touches no thread pool. */
static inline onednn_threads onednn_threads_enter(int32_t threads) {
    onednn_threads before = {omp_get_max_threads(), omp_get_max_active_levels()};
    omp_set_num_threads(threads);
    if (threads == 1)
        omp_set_max_active_levels(0);
    return before;
}

static inline void onednn_threads_leave(onednn_threads before) {
    omp_set_num_threads(before.count);
    omp_set_max_active_levels(before.levels);
}

#else

typedef int onednn_threads;

static inline onednn_threads onednn_threads_enter(int32_t threads) {
    return threads;
}

static inline void onednn_threads_leave(onednn_threads before) {
    (void)before;
}

#endif

#endif
