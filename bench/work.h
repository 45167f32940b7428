/* Verifies and times one problem on one backend. */
#ifndef DSCONV_BENCH_WORK_H
#define DSCONV_BENCH_WORK_H

#include "options.h"
#include "result.h"

/* Called as the work goes on, with what it is at. */
typedef void (*work_progress)(const char *stage);

/* `backend` may be NULL, as in dsconv_context_params. On failure `message` tells why; what is in
 * *result then is of no use. */
dsconv_status work_run(const bench_options *options, const char *backend,
                       const bench_tensors *tensors, work_progress progress, bench_result *result,
                       dsconv_message *message);

#endif
