#include "structs.h"

#include <string.h>

#include "message.h"

/* No structure of any version is larger; an uninitialised struct_size mostly is. */
enum { LARGEST = 4096 };

/* Every structure begins with it. */
static size_t size_of(const void *callers) {
    size_t size;
    memcpy(&size, callers, sizeof size);
    return size;
}

dsconv_status dsconv_struct_check(const void *callers, const char *what) {
    if (!callers)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "%s = NULL", what);
    size_t size = size_of(callers);
    if (size < sizeof(size_t) || size > LARGEST)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "%s.struct_size = %zu: begin with the structure's DSCONV_*_INIT", what,
                           size);
    return DSCONV_OK;
}

dsconv_status dsconv_struct_read(void *own, size_t own_size, const void *callers,
                                 const char *what) {
    dsconv_status status = dsconv_struct_check(callers, what);
    if (status)
        return status;
    size_t size = size_of(callers);
    for (size_t i = own_size; i < size; i++)
        if (((const char *)callers)[i])
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "%s.struct_size = %zu: sets fields that libdsconv %s does not have",
                               what, size, dsconv_version());
    memset(own, 0, own_size);
    memcpy(own, callers, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof own_size);
    return DSCONV_OK;
}

void dsconv_struct_write(void *callers, const void *own, size_t own_size) {
    size_t size = size_of(callers), known = size < own_size ? size : own_size;
    memset((char *)callers + sizeof size, 0, size - sizeof size);
    memcpy((char *)callers + sizeof size, (const char *)own + sizeof size, known - sizeof size);
}
