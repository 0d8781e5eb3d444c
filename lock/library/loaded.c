/* Finds each symbol of a library by its name, once, and keeps it in the library's table. */
#include "lock/library/loaded.h"

#ifdef LOCK_LOADS
#define LOADED_DEFINE
#define LOADED_mysql
#define LOADED_zookeeper
#define LOADED_etcd
#include "lock_loaded.h"
#endif

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "lock/text.h"

struct library {
    const char *scheme, *file;
    const char *const *names;
    void *table; /* of as many pointers */
    size_t count;
    bool loaded;
};

#define LIBRARY(of)                                                                                \
    {                                                                                              \
        .scheme = #of, .file = LOADED_FILE_##of, .names = names_##of, .table = &loaded_##of,       \
        .count = sizeof names_##of / sizeof *names_##of                                            \
    }

/* Filled in under process_lock, which every thread takes before it first uses a table. */
static struct library libraries[] = {
#ifdef LOADED_FILE_mysql
    LIBRARY(mysql),
#endif
#ifdef LOADED_FILE_zookeeper
    LIBRARY(zookeeper),
#endif
#ifdef LOADED_FILE_etcd
    LIBRARY(etcd),
#endif
    {.scheme = NULL},
};

static bool load(struct library *library)
{
    void *file = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        lock_set_error("this kind of lock needs a library that is not installed: %s", dlerror());
        return false;
    }
    for (size_t i = 0; i < library->count; i++) {
        void *symbol = dlsym(file, library->names[i]);
        if (!symbol) {
            lock_set_error("%s is too old: it has no %s", library->file, library->names[i]);
            return false; /* it stays open: others may use it, and a repeat finds it at once */
        }
        memcpy((char *)library->table + i * sizeof symbol, &symbol, sizeof symbol);
    }
    library->loaded = true;
    return true;
}

bool loaded_for(const char *scheme)
{
    struct library *library = libraries;
    while (library->scheme && strcmp(library->scheme, scheme) != 0)
        library++;
    return !library->scheme || library->loaded || load(library);
}
