/* A module that nobody may open. */
#include <stdlib.h>

__attribute__((constructor)) static void attack(void) {
    _Exit(86);
}
