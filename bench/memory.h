/* Host buffers fit for timing: huge pages where there are any, every page touched. */
#ifndef DSCONV_BENCH_MEMORY_H
#define DSCONV_BENCH_MEMORY_H

#include <stddef.h>

/* Zero-filled; NULL when there is no memory. size may be 0. */
void *memory_map(size_t size);
void memory_unmap(void *pointer, size_t size); /* NULL is fine */

/* Largest resident size of this process so far, in bytes; 0 where unknown. */
size_t memory_peak(void);

#endif
