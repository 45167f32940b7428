/* Device memory, copies and waiting. */
#include "context.h"
#include "message.h"

dsconv_status dsconv_alloc(dsconv_context *context, size_t size, void **pointer) {
    if (!pointer)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "pointer = NULL");
    *pointer = NULL;
    dsconv_message message = {""};
    dsconv_status status = dsconv_context_check(context);
    if (status || size == 0)
        return status;
    status = context->backend->alloc(context->handle, size, pointer, &message);
    if (!status)
        return DSCONV_OK;
    *pointer = NULL;
    return dsconv_context_fail(context, status, &message);
}

void dsconv_free(dsconv_context *context, void *pointer) {
    if (context && pointer && !dsconv_context_lost(context))
        context->backend->free(context->handle, pointer);
}

dsconv_status dsconv_copy(dsconv_context *context, void *destination, const void *source,
                          size_t size, dsconv_copy_kind kind, void *stream) {
    dsconv_message message = {""};
    dsconv_status status = dsconv_context_check(context);
    if (status)
        return status;
    if ((unsigned)kind > DSCONV_DEVICE_TO_DEVICE)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "kind = %d: no such value", (int)kind);
    if (size == 0)
        return DSCONV_OK;
    if (!destination || !source)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "%s = NULL",
                           destination ? "source" : "destination");
    status =
        context->backend->copy(context->handle, destination, source, size, kind, stream, &message);
    return status ? dsconv_context_fail(context, status, &message) : DSCONV_OK;
}

dsconv_status dsconv_synchronize(dsconv_context *context, void *stream) {
    dsconv_message message = {""};
    dsconv_status status = dsconv_context_check(context);
    if (status)
        return status;
    status = context->backend->sync(context->handle, stream, &message);
    return status ? dsconv_context_fail(context, status, &message) : DSCONV_OK;
}
