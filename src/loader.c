#include "loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dsconv_config.h"
#include "message.h"

static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;
static char first_directory[PATH_MAX];

void dsconv_module_search(const char *directory) {
    (void)pthread_mutex_lock(&first_lock);
    (void)snprintf(first_directory, sizeof first_directory, "%s", directory ? directory : "");
    (void)pthread_mutex_unlock(&first_lock);
}

/* The folder of the library, or of the program that it is linked into; "" when it is not known. A
 * relative name is of the working directory at the time of loading, which the dynamic loader has
 * kept as the origin. */
static void own_directory(char directory[PATH_MAX]) {
    Dl_info info;
    struct link_map *map = NULL;
    char origin[PATH_MAX];
    directory[0] = '\0';
    if (!dladdr1(first_directory, &info, (void **)&map, RTLD_DL_LINKMAP))
        return;
    const char *file = map->l_name[0] ? map->l_name : "/proc/self/exe";
    if (file[0] == '/' && realpath(file, directory))
        *strrchr(directory, '/') = '\0';
    else if (file[0] == '/' || dlinfo(map, RTLD_DI_ORIGIN, origin) != 0 || origin[0] != '/' ||
             !realpath(origin, directory))
        directory[0] = '\0';
}

typedef struct directories {
    char paths[4][PATH_MAX];
    size_t count;
} directories;

/* An empty or overlong path is left out: it must never mean the working directory. */
static void add(directories *list, const char *path, const char *below) {
    char *slot = list->paths[list->count];
    int length = snprintf(slot, PATH_MAX, "%s%s", path, below);
    if (path[0] == '/' && length < PATH_MAX)
        list->count++;
}

static void *open_file(const directories *list, const char *name, int flags, char file[PATH_MAX]) {
    for (size_t i = 0; i < list->count; i++) {
        int length = snprintf(file, PATH_MAX, "%s/dsconv_%s.so", list->paths[i], name);
        if (length < PATH_MAX && access(file, F_OK) == 0)
            return dlopen(file, flags);
    }
    file[0] = '\0';
    return NULL;
}

static dsconv_module_result not_found(const directories *list, const char *name,
                                      dsconv_message *message) {
    char text[sizeof message->text] = "";
    size_t length = 0;
    for (size_t i = 0; i < list->count && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i ? ", " : "",
                                   list->paths[i]);
    (void)dsconv_explain(message, DSCONV_ERROR_UNAVAILABLE, "dsconv_%s.so is in none of %s", name,
                         text);
    return DSCONV_MODULE_NOT_FOUND;
}

static dsconv_module_result refused(const char *file, const char *reason, dsconv_message *message) {
    (void)dsconv_explain(message, DSCONV_ERROR_UNAVAILABLE, "refused: %s (%s)", reason, file);
    return DSCONV_MODULE_REFUSED;
}

static void search_path(directories *list) {
    char own[PATH_MAX];
    list->count = 0;
    (void)pthread_mutex_lock(&first_lock);
    add(list, first_directory, "");
    (void)pthread_mutex_unlock(&first_lock);
    own_directory(own);
    add(list, own, "");
    add(list, own, "/dsconv");
    add(list, DSCONV_MODULE_DIR, "");
}

/* The sanitizers end a process that uses RTLD_DEEPBIND, whether this library is built with them or
 * the program alone. */
static int alone_flag(void) {
    return dlsym(RTLD_DEFAULT, "__sanitizer_print_stack_trace") ? 0 : RTLD_DEEPBIND;
}

/* The dynamic loader's reason without the path in front, which may be too long for a message. */
static const char *open_failure(const char *file) {
    const char *reason = dlerror();
    size_t length = strlen(file);
    if (!reason)
        return "cannot be opened";
    return strncmp(reason, file, length) == 0 && strncmp(reason + length, ": ", 2) == 0
               ? reason + length + 2
               : reason;
}

/* *file is the module's path, once there is one. */
static dsconv_module_result open_symbol(const char *name, const char *symbol, bool alone,
                                        void **address, char file[PATH_MAX],
                                        dsconv_message *message) {
    directories list;
    search_path(&list);
    void *handle = open_file(&list, name, RTLD_NOW | RTLD_LOCAL | (alone ? alone_flag() : 0), file);
    if (!handle && !file[0])
        return not_found(&list, name, message);
    if (!handle)
        return refused(file, open_failure(file), message);
    *address = dlsym(handle, symbol);
    if (*address)
        return DSCONV_MODULE_OPENED;
    char reason[96];
    (void)snprintf(reason, sizeof reason, "it has no symbol %.64s", symbol);
    (void)dlclose(handle);
    return refused(file, reason, message);
}

dsconv_module_result dsconv_module_open(const char *name, const char *symbol, bool alone,
                                        void **address, dsconv_message *message) {
    char file[PATH_MAX];
    return open_symbol(name, symbol, alone, address, file, message);
}

static bool complete(const dsconv_backend *b) {
    return b->algos && b->probe && b->open && b->close && b->alloc && b->free && b->copy &&
           b->supports && b->plan_create && b->plan_destroy && b->set_weights && b->run && b->sync;
}

dsconv_module_result dsconv_module_open_backend(const char *name, const dsconv_backend **backend,
                                                dsconv_message *message) {
    void *address;
    char file[PATH_MAX];
    dsconv_module_result result =
        open_symbol(name, DSCONV_BACKEND_ENTRY, false, &address, file, message);
    if (result != DSCONV_MODULE_OPENED)
        return result;

    dsconv_backend_entry_fn entry;
    memcpy(&entry, &address, sizeof entry);
    const dsconv_backend *table = entry();
    char reason[128] = "";
    if (!table)
        (void)snprintf(reason, sizeof reason, "it gives no table");
    else if (table->abi != DSCONV_BACKEND_ABI)
        (void)snprintf(reason, sizeof reason, "its ABI is %u, this libdsconv needs %u", table->abi,
                       (unsigned)DSCONV_BACKEND_ABI);
    else if (table->struct_size < sizeof *table)
        (void)snprintf(reason, sizeof reason, "its table has %u bytes, this libdsconv needs %zu",
                       table->struct_size, sizeof *table);
    else if (!table->name || strcmp(table->name, name) != 0)
        (void)snprintf(reason, sizeof reason, "it calls itself \"%.31s\"",
                       table->name ? table->name : "");
    else if (!complete(table))
        (void)snprintf(reason, sizeof reason, "its table lacks a function");
    *backend = table;
    return reason[0] ? refused(file, reason, message) : DSCONV_MODULE_OPENED;
}
