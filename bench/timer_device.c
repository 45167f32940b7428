/*
 * Times of a device that has no timer of its own here: wall time from an idle device to an idle
 * device, over enough calls that the host's part is small. Caches are not flushed, and what the
 * device can do at most is not measured.
 */
#include <time.h>

#include "timer.h"

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dsconv_status open_timer(dsconv_context *context, int32_t device, int32_t threads,
                                void **state, dsconv_message *message) {
    (void)device, (void)threads, (void)message;
    *state = context;
    return DSCONV_OK;
}

static void close_timer(void *state) {
    (void)state;
}

static size_t ceilings(void *state, const bench_traffic *traffic, bench_candidate *candidates,
                       size_t room) {
    (void)state, (void)traffic, (void)candidates, (void)room;
    return 0;
}

static dsconv_status sample(void *state, const bench_call *call, int repeats, double *seconds,
                            bool *clean, dsconv_message *message) {
    dsconv_status status = dsconv_synchronize(state, NULL);
    const double start = now();
    for (int i = 0; i < repeats && status == DSCONV_OK; i++)
        status = call->run(call->self, message);
    if (status == DSCONV_OK)
        status = dsconv_synchronize(state, NULL);
    *seconds = now() - start;
    *clean = true;
    return status;
}

const bench_timer bench_timer_device = {
    .reps = 30,
    .min_seconds = 0.01,
    .open = open_timer,
    .close = close_timer,
    .ceilings = ceilings,
    .sample = sample,
};
