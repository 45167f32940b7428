/* Whether this process was forked. */
#ifndef DSCONV_SRC_FORK_H
#define DSCONV_SRC_FORK_H

/** Forks between the process that loaded the library and this one. */
unsigned dsconv_fork_count(void);

/** Whether this process was forked after the library was loaded. */
int dsconv_in_forked_child(void);

#endif
