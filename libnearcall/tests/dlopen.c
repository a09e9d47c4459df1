/* The shared library loads and unloads again and again and leaves nothing, not
 * even after it was used. */
#include <dlfcn.h>

#include "test.h"

static void load_use_unload(const char *path)
{
    typedef int open_function(nearcall_client **, const char *, const nearcall_options *);
    typedef void close_function(nearcall_client *);
    nearcall_client *client;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library != NULL);
    void *open_symbol = dlsym(library, "nearcall_open");
    void *close_symbol = dlsym(library, "nearcall_close");
    open_function *open_client;
    close_function *close_client;
    memcpy(&open_client, &open_symbol, sizeof(open_client));
    memcpy(&close_client, &close_symbol, sizeof(close_client));
    CHECK_INT(open_client(&client, "unix:/nowhere", NULL), NEARCALL_OK);
    close_client(client);
    CHECK(dlsym(library, "nc_enter") == NULL); /* internals are not exported */
    CHECK_INT(dlclose(library), 0);
}

int main(int count, char **arguments)
{
    test_begin();
    CHECK_INT(count, 2);
    for (int i = 0; i < 100; i++)
        load_use_unload(arguments[1]);
    return 0;
}
