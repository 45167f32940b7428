#include "fork.h"

#include <pthread.h>

/* Written only in a new child, which has one thread. */
static unsigned forks;

static void in_child(void) {
    forks++;
}

__attribute__((constructor)) static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, in_child);
}

unsigned dsconv_fork_count(void) {
    return forks;
}

int dsconv_in_forked_child(void) {
    return forks != 0;
}
