/* Log lines, to the callback of a context only. */
#ifndef DSCONV_SRC_LOG_H
#define DSCONV_SRC_LOG_H

#include "dsconv/dsconv.h"

typedef struct dsconv_log {
    dsconv_log_fn write; /* may be NULL */
    void *user;
    dsconv_log_level level;
} dsconv_log;

void dsconv_log_line(const dsconv_log *log, dsconv_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
