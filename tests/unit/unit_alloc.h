/* Counts the allocations of the library linked into a test, and makes one of them fail. */
#ifndef DSCONV_UNIT_ALLOC_H
#define DSCONV_UNIT_ALLOC_H

/** Allocations since the start, and those not yet freed. */
int unit_allocations(void);
int unit_live_allocations(void);

/** Makes the allocation fail that comes after `count` more; a negative count: none. */
void unit_fail_after(int count);

#endif
