/* How oneDNN's threads behave, for a while, where the calling thread leads them. */
#ifndef DSCONV_ONEDNN_THREADS_H
#define DSCONV_ONEDNN_THREADS_H

#include <stdint.h>

typedef struct onednn_threads {
    int before, levels_before; /* OpenMP's settings */
    int32_t count, flush;
} onednn_threads;

/* Until leave, oneDNN takes `count` threads, which see subnormal numbers as zero if `flush`. */
onednn_threads onednn_threads_enter(int32_t count, int32_t flush);
void onednn_threads_leave(const onednn_threads *threads);

#endif
