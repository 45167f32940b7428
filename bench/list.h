/* `dsconv-bench --list`: every known backend. */
#ifndef DSCONV_BENCH_LIST_H
#define DSCONV_BENCH_LIST_H

void list_backends(void);

#endif
