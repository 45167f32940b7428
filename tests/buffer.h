/*
 * Memory for one tensor of a test, where every stray access shows.
 *
 * On a host backend it lies between two pages without access, flush against one of them; inputs are
 * read-only. On a device it lies between canary zones. All that is no element of the tensor (zones,
 * gaps between strided rows) holds the bytes 0xff, a NaN in every storage type, and must still
 * hold them afterwards; outputs start as the same NaN.
 */
#ifndef DSCONV_TESTS_BUFFER_H
#define DSCONV_TESTS_BUFFER_H

#include "tensor.h"

typedef enum placement {
    PLACE_END,   /* the last byte touches the upper guard */
    PLACE_START, /* the first byte touches the lower guard */
    PLACE_ODD,   /* one element after PLACE_START: no more than element alignment */
    PLACEMENTS
} placement;

typedef struct buffer {
    unsigned char *map; /* readable part, on the host */
    size_t map_size, offset, size;
    dsconv_context *device; /* NULL on a host backend */
    unsigned char *device_map;
} buffer;

/** False when memory is short. `element` is the size of one element. device: NULL on the host. */
bool buffer_make(buffer *b, dsconv_context *device, size_t size, size_t element, placement place);
void buffer_free(buffer *b);

/** The tensor in host memory, and the address that the library gets. */
void *buffer_host(const buffer *b);
void *buffer_address(const buffer *b);

/** Everything 0xff again, except that `contents` (may be NULL) fills the tensor. */
bool buffer_reset(buffer *b, const void *contents);
/** Host to device. */
bool buffer_send(const buffer *b);
/** From now on a host backend that writes to the buffer crashes. */
bool buffer_seal(const buffer *b);
/** Device to host. */
bool buffer_fetch(const buffer *b);
/** Whether all but the elements of `t` (in host memory of b) still holds 0xff. Destroys them. */
bool buffer_intact(const buffer *b, const tensor *t);

#endif
