#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* initial-exec: no call into the dynamic loader, and so no dependency on it by name. */
static _Thread_local __attribute__((tls_model("initial-exec"))) dsconv_message last;

static void print(dsconv_message *message, const char *format, va_list arguments) {
    int length = vsnprintf(message->text, sizeof message->text, format, arguments);
    if (length < 0)
        message->text[0] = '\0';
    else if ((size_t)length >= sizeof message->text)
        memcpy(message->text + sizeof message->text - sizeof "...", "...", sizeof "...");
}

dsconv_status dsconv_fail(dsconv_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(&last, format, arguments);
    va_end(arguments);
    return status;
}

dsconv_status dsconv_explain(dsconv_message *message, dsconv_status status, const char *format,
                             ...) {
    va_list arguments;
    va_start(arguments, format);
    print(message, format, arguments);
    va_end(arguments);
    return status;
}

const char *dsconv_last_message(void) {
    return last.text;
}

const char *dsconv_status_name(dsconv_status status) {
    static const char *const names[] = {
        [DSCONV_OK] = "ok",
        [DSCONV_ERROR_INVALID_ARGUMENT] = "invalid argument",
        [DSCONV_ERROR_UNSUPPORTED] = "unsupported",
        [DSCONV_ERROR_UNKNOWN_BACKEND] = "unknown backend",
        [DSCONV_ERROR_UNAVAILABLE] = "unavailable",
        [DSCONV_ERROR_OUT_OF_MEMORY] = "out of memory",
        [DSCONV_ERROR_DEVICE] = "device failure",
        [DSCONV_ERROR_STATE] = "wrong state",
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof *names ? names[index] : "unknown status";
}

#define TEXT(value)                 #value
#define DOTTED(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *dsconv_version(void) {
    return DOTTED(DSCONV_VERSION_MAJOR, DSCONV_VERSION_MINOR, DSCONV_VERSION_PATCH);
}
