#include "buffer.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xff };

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

bool buffer_make(buffer *b, dsconv_context *device, size_t size, size_t element, placement place) {
    const size_t page = page_size();
    const size_t pages = (size + element + page - 1) / page;
    const size_t guards = device == NULL ? page : 0;
    *b = (buffer){.size = size, .device = device};
    /* A device has no guard pages: a page of canaries on each side instead. */
    b->map_size = pages * page + (device == NULL ? 0 : 2 * page);
    unsigned char *map = mmap(NULL, b->map_size + 2 * guards, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return false;
    b->map = map + guards;
    const size_t offsets[] = {
        [PLACE_END] = pages * page - size, [PLACE_START] = 0, [PLACE_ODD] = element};
    b->offset = offsets[place] + (device == NULL ? 0 : page);
    void *memory = NULL;
    if (device != NULL && dsconv_alloc(device, b->map_size, &memory) != DSCONV_OK) {
        buffer_free(b);
        return false;
    }
    b->device_map = memory;
    return buffer_reset(b, NULL);
}

void buffer_free(buffer *b) {
    if (b->map == NULL)
        return;
    const size_t guards = b->device == NULL ? page_size() : 0;
    munmap(b->map - guards, b->map_size + 2 * guards);
    if (b->device != NULL)
        dsconv_free(b->device, b->device_map);
    *b = (buffer){0};
}

void *buffer_host(const buffer *b) {
    return b->map + b->offset;
}

void *buffer_address(const buffer *b) {
    return (b->device == NULL ? b->map : b->device_map) + b->offset;
}

bool buffer_reset(buffer *b, const void *contents) {
    if (mprotect(b->map, b->map_size, PROT_READ | PROT_WRITE) != 0)
        return false;
    memset(b->map, CANARY, b->map_size);
    if (contents != NULL)
        memcpy(b->map + b->offset, contents, b->size);
    return buffer_send(b);
}

bool buffer_send(const buffer *b) {
    return b->device == NULL || dsconv_copy(b->device, b->device_map, b->map, b->map_size,
                                            DSCONV_HOST_TO_DEVICE, NULL) == DSCONV_OK;
}

bool buffer_seal(const buffer *b) {
    return b->device != NULL || mprotect(b->map, b->map_size, PROT_READ) == 0;
}

bool buffer_fetch(const buffer *b) {
    return b->device == NULL || dsconv_copy(b->device, b->map, b->device_map, b->map_size,
                                            DSCONV_DEVICE_TO_HOST, NULL) == DSCONV_OK;
}

bool buffer_intact(const buffer *b, const tensor *t) {
    const size_t size = dtype_size(t->dtype);
    unsigned char *data = t->data;
    for (int64_t n = 0; n < t->dims[0]; n++)
        for (int64_t c = 0; c < t->dims[1]; c++)
            for (int64_t h = 0; h < t->dims[2]; h++)
                for (int64_t w = 0; w < t->dims[3]; w++)
                    memset(data + (size_t)tensor_offset(t, n, c, h, w) * size, CANARY, size);
    return b->map[0] == CANARY && memcmp(b->map, b->map + 1, b->map_size - 1) == 0;
}
