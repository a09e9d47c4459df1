/* What a Go library built with package embed and libnearcall agree on. Both sides
 * include this file; NEARCALL_EMBED_VERSION changes with it. */
#ifndef NEARCALL_EMBED_LIBRARY_H
#define NEARCALL_EMBED_LIBRARY_H

#include <stdint.h>
#include <sys/types.h>

#define NEARCALL_EMBED_VERSION 3

/* The one symbol that is looked up: a function without parameters that returns the
 * library's struct. It enters no Go code, so it may be called in any process. */
#define NEARCALL_EMBED_SYMBOL "nearcall_embed_library"

/* What nearcall_embed_call.function is while only the name is known. */
#define NEARCALL_EMBED_UNNUMBERED 0

enum nearcall_embed_result {
    NEARCALL_EMBED_DONE = 0,     /* code, outcome and the reply are set */
    NEARCALL_EMBED_ELSEWHERE = 1 /* nothing was done; call over the connection */
};

/* One call. Owned by the caller; the library keeps nothing of it. */
struct nearcall_embed_call {
    const char *name;    /* not ended by NUL */
    const void *payload; /* stays as it is during the call */
    uint64_t payload_bytes;
    uint64_t deadline_ns; /* of CLOCK_MONOTONIC, for the function's context; 0: none */
    const void *extensions; /* of the request, as on the wire, without its name */
    uint64_t extension_bytes;
    uint32_t name_bytes;
    uint32_t function; /* its number; set by the library when it found the name */
    uint32_t codec;

    int32_t code;    /* as on the wire, 0: success */
    int32_t outcome; /* as on the wire */
    uint8_t *reply;  /* its extensions, then the result or the error's payload */
    uint64_t reply_capacity;
    uint64_t reply_bytes; /* of all of that */
    uint64_t reply_extension_bytes;
    /* Makes reply_capacity at least so many bytes: 0, or -1 without memory. */
    int (*grow)(struct nearcall_embed_call *call, uint64_t bytes);
};

/* Where the process that loaded the library serves others. */
struct nearcall_embed_place {
    char path[108];   /* its socket */
    char latest[108]; /* leads to the socket of the process that loaded the same file last */
    int descriptor;   /* of the socket itself (O_PATH), for children of other users; -1 */
    dev_t device;     /* with inode: what descriptor was when it was opened */
    ino_t inode;
};

struct nearcall_embed_library {
    uint32_t version; /* NEARCALL_EMBED_VERSION; first for ever */
    /* 1 in the process that loaded the library, and 0 in every child: there none of
     * the functions below may be called. */
    const volatile uint32_t *is_loader;
    pid_t loader;
    const struct nearcall_embed_place *place; /* filled in by start */

    /* Serves others. file is the library's absolute path. Any thread, any number of
     * times. 0, or -1 with a sentence in error. */
    int (*start)(const char *file, char *error, uint64_t error_bytes);
    /* Returns enum nearcall_embed_result. Any number of threads at once. */
    int (*call)(struct nearcall_embed_call *call);
    /* A call of the function took too long to be made this way again. */
    void (*overran)(uint32_t function);
};

typedef const struct nearcall_embed_library *nearcall_embed_library_function(void);

#endif
