/* Finding OpenSSL. */
#include "transport/openssl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libssl.so.3"

/* libssl brings libcrypto with it, and what is looked up in the one is looked for in the other as well. */
static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define FUNCTION(type, name, parameters) {#name, offsetof(struct nc_openssl, name)},
    NC_OPENSSL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static int refuse(char *words, size_t words_bytes, const char *what)
{
    snprintf(words, words_bytes, "tls: needs " LIBRARY " of OpenSSL 3 (the package libssl3 of Debian): %s",
             what ? what : "it cannot be loaded");
    return -1;
}

int nc_openssl_load(struct nc_openssl *openssl, char *words, size_t words_bytes)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return refuse(words, words_bytes, dlerror());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return refuse(words, words_bytes, dlerror());
        memcpy((char *)openssl + functions[i].offset, &function, sizeof(function));
    }
    /* Handlers of exit(3), and other threads, may still use handles while a program ends. */
    if (openssl->OPENSSL_init_ssl(NC_OPENSSL_NO_ATEXIT, NULL) != 1)
        return refuse(words, words_bytes, "it cannot be initialised");
    return 0;
}
