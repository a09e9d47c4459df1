/* What is being put together: the request of a handle, or what a writer apart from one has. Owned by request/. */
#ifndef NC_HANDLE_REQUEST_H
#define NC_HANDLE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/limits_gen.h"
#include "handle/function.h"

struct nc_files;

/* The request itself, the array of its arguments, and what a value may nest. */
#define NC_WRITER_LEVELS (NC_NESTING_DEPTH_MAX + 2)

struct nc_writer {
    nearcall_client *owner; /* whose request it is; NULL: it is apart from any handle */
    struct nc_buffer buffer;
    bool in_arena; /* buffer lies there; it is not to be freed */
    struct nc_buffer private_buffer; /* waits meanwhile */
    nearcall_function *function; /* NULL: there is none that may be put to or sent */
    struct nc_encoding encoding;
    uint8_t codec;
    bool packs; /* lists may be written as blocks; the codec that travels says so */
    unsigned sendings; /* made of the same call, with other encodings */
    struct nc_files *files; /* NULL: none */
    bool unchecked; /* nearcall_put_raw() was used: values cannot be counted */
    int failure; /* the first one; 0 */
    const char *what;
    size_t reserved_end; /* the buffer's end after the last reservation; 0: none */
    size_t reserved_bytes;
    unsigned depth;
    uint64_t left[NC_WRITER_LEVELS]; /* values missing, by level */
};

#endif
