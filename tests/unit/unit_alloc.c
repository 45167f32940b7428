#include "unit_alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* The linker's --wrap leads the library's calls here. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *pointer);

static atomic_int allocations, live, until_failure = -1;

static bool fails(void) {
    allocations++;
    return atomic_load(&until_failure) >= 0 && atomic_fetch_sub(&until_failure, 1) == 0;
}

static void *counted(void *pointer) {
    live += pointer != NULL;
    return pointer;
}

void *__wrap_malloc(size_t size) {
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size) {
    if (fails())
        return NULL;
    void *pointer = __real_realloc(old, size);
    live += pointer && !old;
    return pointer;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *pointer) {
    live -= pointer != NULL;
    __real_free(pointer);
}

int unit_allocations(void) {
    return allocations;
}

int unit_live_allocations(void) {
    return live;
}

void unit_fail_after(int count) {
    until_failure = count;
}
