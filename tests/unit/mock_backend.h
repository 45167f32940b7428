/* What a test and the mock module share. */
#ifndef DSCONV_MOCK_BACKEND_H
#define DSCONV_MOCK_BACKEND_H

#include <stdatomic.h>

#include "dsconv/backend.h"

/** What the module was built to do wrong. */
enum {
    FAULT_NONE,
    FAULT_NO_TABLE,
    FAULT_ABI,
    FAULT_SHORT,
    FAULT_NAME,
    FAULT_FUNCTION,
    FAULT_NO_DRIVER,
    FAULT_NO_DEVICE,
    FAULT_TOO_OLD,
    FAULT_OPEN,
    FAULT_PLAN,
    FAULT_WEIGHTS,
    FAULT_RUN,
    FAULT_WRONG
};

/** A stream: work waits in it until somebody waits for it. */
typedef struct mock_stream {
    int count;
    struct {
        void *handle;
        const void *plan;
        dsconv_run_params params;
    } jobs[4];
} mock_stream;

/** What lives, and how often the module was called to end something. Symbol "mock_counts". */
typedef struct mock_counts {
    atomic_int handles, plans, allocations, releases;
} mock_counts;

#endif
