/* Structures that grow: what a caller of another version knows of them. */
#ifndef DSCONV_SRC_STRUCTS_H
#define DSCONV_SRC_STRUCTS_H

#include "dsconv/dsconv.h"

/**
 * Copies a caller's structure into one of this version, zero in what the caller does not know.
 * Refuses NULL, an unset or absurd struct_size, and values in fields that this version lacks.
 */
dsconv_status dsconv_struct_read(void *own, size_t own_size, const void *callers, const char *what);

/** Refuses an output structure that dsconv_struct_write() could not fill. */
dsconv_status dsconv_struct_check(const void *callers, const char *what);

/** Fills what the caller knows of `own`; its struct_size stays, fields unknown here become 0. */
void dsconv_struct_write(void *callers, const void *own, size_t own_size);

#endif
