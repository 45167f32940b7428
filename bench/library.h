/* The library on one problem: context, plan, and tensors where the backend wants them. */
#ifndef DSCONV_BENCH_LIBRARY_H
#define DSCONV_BENCH_LIBRARY_H

#include "tensors.h"
#include "timer.h"

typedef struct bench_library {
    dsconv_context *context;
    dsconv_plan *plan;
    dsconv_plan_info info;
    dsconv_device_info device;
    bool host;           /* the device's memory is the host's */
    void *data[TENSORS]; /* in the device's memory; those of the host on a host */
    void *workspace;
    const bench_tensors *tensors;
} bench_library;

/* Makes a plan and sets its weights. The caller closes the library whatever the status. */
dsconv_status library_open(bench_library *library, const bench_options *options,
                           const char *backend, const bench_tensors *tensors,
                           dsconv_message *message);
void library_close(bench_library *library);

/* Enqueues one run. As bench_call.run, with a bench_library. */
dsconv_status library_run(void *self, dsconv_message *message);

/* Fills y and mid with NaN, runs, and brings both to the host's tensors. */
dsconv_status library_run_checked(bench_library *library, dsconv_message *message);

/* Waits for the device, and brings y and mid to the host's tensors. */
dsconv_status library_fetch(const bench_library *library, dsconv_message *message);

/* What a run reads and writes. */
bench_traffic library_traffic(const bench_library *library);

#endif
