/* Wall time on a host; a sample is clean unless other jobs kept our threads off the processors. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ceilings.h"
#include "timer.h"

static const double most_delay = 0.03; /* share of a sample */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds that the threads of this process were ready to run and waited for a processor: second
 * number of /proc/PID/task/TID/schedstat (Linux, Documentation/scheduler/sched-stats). */
static double run_queue_delay(void) {
    double seconds = 0.0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        char path[sizeof task->d_name + 40];
        unsigned long long ran, waited;
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fscanf(file, "%llu %llu", &ran, &waited) == 2)
            seconds += 1e-9 * (double)waited;
        if (file)
            (void)fclose(file);
    }
    if (tasks)
        (void)closedir(tasks);
    return seconds;
}

static dsconv_status open_timer(dsconv_context *context, int32_t device, int32_t threads,
                                void **state, dsconv_message *message) {
    (void)context, (void)device;
    host_ceilings *ceilings = malloc(sizeof *ceilings);
    *state = ceilings;
    if (!ceilings) {
        (void)snprintf(message->text, sizeof message->text, "out of host memory");
        return DSCONV_ERROR_OUT_OF_MEMORY;
    }
    host_ceilings_open(ceilings, threads);
    return DSCONV_OK;
}

static size_t ceilings(void *state, const bench_traffic *traffic, bench_candidate *candidates,
                       size_t room) {
    return host_ceilings_candidates(state, traffic, candidates, room);
}

static dsconv_status sample(void *state, const bench_call *call, int repeats, double *seconds,
                            bool *clean, dsconv_message *message) {
    (void)state;
    dsconv_status status = DSCONV_OK;
    const double delay = run_queue_delay();
    const double start = now();
    for (int i = 0; i < repeats && status == DSCONV_OK; i++)
        status = call->run(call->self, message);
    *seconds = now() - start;
    *clean = run_queue_delay() - delay < most_delay * *seconds;
    return status;
}

const bench_timer bench_timer_host = {
    .reps = 10,
    .min_seconds = 0.03,
    .open = open_timer,
    .close = free,
    .ceilings = ceilings,
    .sample = sample,
};
