/* An empty function of a Go library: what entering Go costs, with nothing around it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"

struct library {
    void (*empty)(void);
};

/* address is "embed:" and the library's path. */
static void *open_cgo(const struct subject *subject, const char *address, size_t payload_bytes)
{
    struct library *library = calloc(1, sizeof *library);
    const char *path = strchr(address, ':') + 1;
    void *handle = dlopen(path, RTLD_NOW);

    (void)subject;
    (void)payload_bytes;
    if (library != NULL && handle != NULL)
        *(void **)&library->empty = dlsym(handle, "empty");
    if (library == NULL || library->empty == NULL) {
        fprintf(stderr, "caller: %s\n", dlerror());
        return NULL;
    }
    library->empty();
    return library;
}

static int call_cgo(void *state)
{
    const struct library *library = state;

    library->empty();
    return 0;
}

const struct subject cgo_subjects[] = {{.name = "cgo", .open = open_cgo, .call = call_cgo}, {0}};
