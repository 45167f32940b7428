/*
 * Timing: what the candidates are, and how one kind of device times a call.
 *
 * All candidates of a problem are timed in one process, interleaved, so that what disturbs the
 * machine disturbs them alike.
 */
#ifndef DSCONV_BENCH_TIMER_H
#define DSCONV_BENCH_TIMER_H

#include <stdbool.h>

#include <dsconv/backend.h>

/* One call; on a GPU it only enqueues into the default stream. */
typedef struct bench_call {
    dsconv_status (*run)(void *self, dsconv_message *message);
    void *self;
} bench_call;

typedef struct bench_times {
    double median, min, mean; /* seconds per call; 0 before it was timed */
    int kept, taken;          /* samples */
    bool quiet;               /* the samples kept are those that nothing disturbed */
} bench_times;

typedef enum bench_role { ROLE_LIBRARY, ROLE_FMA_PEAK, ROLE_MIX, ROLE_BASELINE } bench_role;

typedef struct bench_candidate {
    const char *name;
    bench_role role;
    bench_call call;
    double work; /* of one call: flops of ROLE_FMA_PEAK, bytes of ROLE_MIX */
    bench_times times;
} bench_candidate;

/* The tensors that a run reads and writes, in the device's memory. */
typedef struct bench_traffic {
    struct {
        void *data;
        size_t size;
        bool write;
    } tensor[4];
    int count;
} bench_traffic;

typedef struct bench_timer {
    int reps;           /* samples of each candidate, unless the user says */
    double min_seconds; /* of a sample; shorter calls are repeated within one */

    /* threads: those that the work of a host runs in. Until it is closed, by the caller, the device
     * is the calling thread's current one. */
    dsconv_status (*open)(dsconv_context *context, int32_t device, int32_t threads, void **state,
                          dsconv_message *message);
    void (*close)(void *state);

    /* Makes the candidates that show what the device can do at most, in the mix of reads and writes
     * given; writes destroy what is written to. Fills at most `room`, gives how many. */
    size_t (*ceilings)(void *state, const bench_traffic *traffic, bench_candidate *candidates,
                       size_t room);

    /* Seconds that `repeats` calls took, and whether nothing else disturbed them. */
    dsconv_status (*sample)(void *state, const bench_call *call, int repeats, double *seconds,
                            bool *clean, dsconv_message *message);
} bench_timer;

extern const bench_timer bench_timer_cuda;
extern const bench_timer bench_timer_device; /* of any backend whose memory is not the host's */
extern const bench_timer bench_timer_host;

const bench_timer *bench_timer_for(const char *backend, bool host);

/* Takes `reps` clean samples of every candidate; of three times as many at most, and keeps all of
 * those where the machine was busy for more than half of them. Fills their times. */
dsconv_status bench_measure(const bench_timer *timer, void *state, bench_candidate *candidates,
                            size_t count, int reps, dsconv_message *message);

#endif
