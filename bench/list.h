/* `dsconv-bench --list`: every known backend. */
#ifndef DSCONV_BENCH_LIST_H
#define DSCONV_BENCH_LIST_H

/** Returns 0, or -1 after saying why there is nothing to list. */
int list_backends(void);

#endif
