#include "log.h"

#include <stdarg.h>
#include <stdio.h>

void dsconv_log_line(const dsconv_log *log, dsconv_log_level level, const char *format, ...) {
    if (!log->write || level > log->level)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0)
        log->write(log->user, level, text);
}
