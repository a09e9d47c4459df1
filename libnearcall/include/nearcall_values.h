/*
 * nearcall_values.h - values that are put into requests and read from replies
 *
 * A part of nearcall.h, which includes it and is the manual for handles, errors, threads
 * and forks.
 */
#ifndef NEARCALL_VALUES_H
#define NEARCALL_VALUES_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Putting a request together ---- */

/* Writers. They return nothing so that they can be chained: the first failure
 * (no memory, frame too large, nesting) is kept and returned by the function
 * that sends. Strings are UTF-8 and need not end in NUL. */
NEARCALL_API void nearcall_put_nil(nearcall_client *client);
NEARCALL_API void nearcall_put_bool(nearcall_client *client, int value);
NEARCALL_API void nearcall_put_int(nearcall_client *client, int64_t value);
NEARCALL_API void nearcall_put_uint(nearcall_client *client, uint64_t value);
NEARCALL_API void nearcall_put_float(nearcall_client *client, float value);
NEARCALL_API void nearcall_put_double(nearcall_client *client, double value);
NEARCALL_API void nearcall_put_string(nearcall_client *client, const char *text, size_t bytes);
NEARCALL_API void nearcall_put_bytes(nearcall_client *client, const void *data, size_t bytes);
NEARCALL_API void nearcall_put_time(nearcall_client *client, int64_t seconds, uint32_t nanoseconds);
/* An open file, pipe, socket, for a parameter of type file or connection, where the
 * server allows that to this process (spec/schema.md, "Files and connections"). The request
 * gets a duplicate: fd stays the caller's, to close as soon as it likes. Both share the
 * position and O_NONBLOCK; who passes a connection on no longer uses it. */
NEARCALL_API void nearcall_put_file(nearcall_client *client, int fd);
NEARCALL_API void nearcall_put_array(nearcall_client *client, uint32_t elements);
NEARCALL_API void nearcall_put_map(nearcall_client *client, uint32_t pairs);
/* Bytes as they are: a raw payload, JSON, or MessagePack made elsewhere. After it
 * and after nearcall_put_reserve() values are no longer counted, so an array that
 * is too short is found by the server instead of by the library. */
NEARCALL_API void nearcall_put_raw(nearcall_client *client, const void *data, size_t bytes);
/* Room for bytes that the caller fills before the next function on this
 * handle; NULL when there is none (the failure is kept). */
NEARCALL_API void *nearcall_put_reserve(nearcall_client *client, size_t bytes);

/* Right after a reservation: only so many of its bytes, the first, are used. NEARCALL_OK,
 * or the request's failure, which is kept. */
NEARCALL_API int nearcall_put_commit(nearcall_client *client, size_t bytes);

/* The same as nearcall_put_reserve() with a return value: NEARCALL_OK with *ret_data set,
 * or the failure, which is kept as well. A raw request is best built so: a large one then
 * lies in shared memory from its first byte, and sending it copies nothing. */
NEARCALL_API int nearcall_put_raw_reserve(nearcall_client *client, size_t bytes,
                                          uint8_t **ret_data);

/* What the writers have come to since nearcall_request(): NEARCALL_OK, or the failure that
 * they keep, as an error of the handle. Cheap; for who walks a large value, and need not go
 * on once it does not fit a frame or nests too deeply. */
NEARCALL_API int nearcall_put_check(nearcall_client *client);

/* ---- Reading MessagePack: no allocation, no recursion ---- */

enum {
    NEARCALL_NIL, NEARCALL_BOOL, NEARCALL_INT, NEARCALL_UINT, NEARCALL_FLOAT,
    NEARCALL_STRING, NEARCALL_BYTES, NEARCALL_ARRAY, NEARCALL_MAP,
    NEARCALL_TIME, NEARCALL_EXTENSION, NEARCALL_FILE
};

typedef struct nearcall_reader {
    const uint8_t *next; /* first byte not read yet */
    const uint8_t *end;
} nearcall_reader;

typedef struct nearcall_value {
    int type;                  /* NEARCALL_NIL ... */
    uint32_t count;            /* ARRAY: elements; MAP: pairs; STRING, BYTES, EXTENSION: bytes; TIME: nanoseconds */
    int8_t extension_type;     /* EXTENSION only */
    union {
        int boolean;
        int64_t integer;       /* INT: always negative numbers and all that fit; TIME: seconds since 1970;
                                  FILE: its number, for nearcall_take_file() */
        uint64_t unsigned_integer; /* UINT: only what does not fit in integer */
        double real;
        const uint8_t *data;   /* inside the reader's bytes, not NUL-terminated */
    } as;
} nearcall_value;

/* Both functions leave the reader where it was when they fail. */

/* Reads the next value; for arrays and maps only the head, the elements are
 * read by further calls. Returns NEARCALL_OK, NEARCALL_E_OUT_OF_RANGE at the
 * end, NEARCALL_E_INVALID_ARGUMENT for what is not MessagePack, is cut off, or
 * announces more elements than there are bytes. Strings are handed out as they
 * came: who needs UTF-8 checks it. */
NEARCALL_API int nearcall_read(nearcall_reader *reader, nearcall_value *ret_value);

/* Skips one value with all that is inside; refuses deeper nesting than 32. */
NEARCALL_API int nearcall_skip(nearcall_reader *reader);

/* The file or connection for which a value of type NEARCALL_FILE stands in the reply that
 * was handed out last: an open descriptor, close-on-exec, that is the caller's from now on.
 * Those that nobody takes are closed by the next function that is given the handle, as it
 * ends the reply. NEARCALL_E_INVALID_ARGUMENT, without a message on the handle: no such
 * file came, or it was taken. A connection may not block (O_NONBLOCK): see fcntl(2). */
NEARCALL_API int nearcall_take_file(nearcall_client *client, int64_t number);

#ifdef __cplusplus
}
#endif

#endif
