#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE = 2 << 20 };

/* Small tensors share no huge page, so a whole one each would be waste. */
static size_t rounded(size_t size) {
    const size_t unit = size < HUGE ? PAGE : HUGE;
    return (size + unit - 1) / unit * unit + (size == 0 ? PAGE : 0);
}

/* mmap aligns to pages only: take more and give back both ends. */
static char *map_aligned(size_t size) {
    char *base =
        mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    const size_t before = (HUGE - (uintptr_t)base % HUGE) % HUGE;
    if (before > 0)
        (void)munmap(base, before);
    (void)munmap(base + before + size, HUGE - before);
    return base + before;
}

void *memory_map(size_t size) {
    const size_t length = rounded(size);
    char *bytes = map_aligned(length);
    if (!bytes)
        return NULL;
    (void)madvise(bytes, length, MADV_HUGEPAGE);
    const int64_t pages = (int64_t)(length / PAGE);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < pages; i++)
        bytes[i * PAGE] = 0;
    return bytes;
}

void memory_unmap(void *pointer, size_t size) {
    if (pointer)
        (void)munmap(pointer, rounded(size));
}

size_t memory_peak(void) {
    unsigned long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lu kB", &kib) == 1)
            break;
    if (file)
        (void)fclose(file);
    return (size_t)kib * 1024;
}
