/* The text of the last failure in each thread. */
#ifndef DSCONV_SRC_MESSAGE_H
#define DSCONV_SRC_MESSAGE_H

#include "dsconv/backend.h"

/** Stores the text for dsconv_last_message() and returns status. */
dsconv_status dsconv_fail(dsconv_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** The same into a backend's or the loader's message. */
dsconv_status dsconv_explain(dsconv_message *message, dsconv_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
