/*
 * nearcall_values.h - values that are put into requests and read from replies
 *
 * This is a part of nearcall.h, which includes it. nearcall.h is the manual for handles,
 * errors, threads and forks.
 *
 * LARGE VALUES. A frame has 4 MiB by default, and at most 16,777,215 bytes. Requests and replies
 * that do not fit one travel in stores, which are files in memory that the server makes, up to
 * the option value_bytes_max of nearcall_open(): 65,536 bytes to 1 GiB. The server must allow it as
 * well (in Go server.WithValueBytesMax): its limit holds for requests, and the handle's for both.
 *     nearcall_options options = NEARCALL_OPTIONS_INIT;
 *     options.value_bytes_max = 1 << 30;
 * Nothing else changes: the same functions make such calls, with the same deadlines, retries and
 * outcomes. Beyond the limits they fail with NEARCALL_E_RESOURCE_EXHAUSTED, not executed for a
 * request, and executed with its result lost for a reply; the message names the option.
 *   A request is copied once, into its store, and a reply once, into memory of the handle, where
 * the reply is lent like any other. The server may take a store back, so a reply is not lent
 * from there. With NEARCALL_NONBLOCKING, too, a function copies all of a value before it returns,
 * and while it copies the value of one call, no other call of the handle ends by its timeout.
 * Handlers of signals run after at most 4 MiB of it. A connection has two stores for requests
 * and two for replies. Further large calls wait for them, and small calls do not.
 *   A handle keeps the memory of its last large reply, and its stores, for one second after their
 * last use. It gives them back at the next call that is made after that, or in nearcall_process(),
 * which nearcall_timeout_ms() asks for. A forked child gets none of the stores.
 *   It works on local sockets only. With ?shm=off or NEARCALL_NO_SHARED_MEMORY, and for requests
 * and replies with files, the limit of frames holds.
 */
#include "nearcall.h" /* before all else: it includes this, and then what needs this */
#ifndef NEARCALL_VALUES_H
#define NEARCALL_VALUES_H

#ifdef __cplusplus
extern "C" {
#endif

/* How many bytes a request of this handle may have at most, whatever the server takes: those of the
 * largest frame, or the option value_bytes_max if that is more. It is for programs that do not want
 * to encode what will be refused. */
NEARCALL_API size_t nearcall_request_bytes_max(const nearcall_client *client);

/* ---- Putting a request together ---- */

/* These functions put values into the request that nearcall_request() has begun. They
 * return nothing, so that calls can follow each other without checks: the handle keeps the
 * first failure (no memory, a frame that is too large, nesting that is too deep), and the
 * function that sends returns it. Strings are UTF-8 and need not end in NUL. */
NEARCALL_API void nearcall_put_nil(nearcall_client *client);
NEARCALL_API void nearcall_put_bool(nearcall_client *client, int value);
NEARCALL_API void nearcall_put_int(nearcall_client *client, int64_t value);
NEARCALL_API void nearcall_put_uint(nearcall_client *client, uint64_t value);
NEARCALL_API void nearcall_put_float(nearcall_client *client, float value);
NEARCALL_API void nearcall_put_double(nearcall_client *client, double value);
NEARCALL_API void nearcall_put_string(nearcall_client *client, const char *text, size_t bytes);
NEARCALL_API void nearcall_put_bytes(nearcall_client *client, const void *data, size_t bytes);
NEARCALL_API void nearcall_put_time(nearcall_client *client, int64_t seconds, uint32_t nanoseconds);
/* An open file, pipe or socket, for a parameter of type file or connection, if the server
 * allows this process to pass them (spec/schema.md, "Files and connections"). The request
 * gets a duplicate: fd still belongs to the caller, who may close it at any time. Both
 * share the file position and O_NONBLOCK. After passing a connection on, do not use it any
 * more. */
NEARCALL_API void nearcall_put_file(nearcall_client *client, int fd);
NEARCALL_API void nearcall_put_array(nearcall_client *client, uint32_t elements);
NEARCALL_API void nearcall_put_map(nearcall_client *client, uint32_t pairs);

/* The types of elements that all have one size, for lists that travel as one block. The
 * elements of a list of durations are NEARCALL_ELEMENT_INT64, in nanoseconds. */
enum {
    NEARCALL_ELEMENT_BOOL = 1, NEARCALL_ELEMENT_INT8, NEARCALL_ELEMENT_INT16, NEARCALL_ELEMENT_INT32,
    NEARCALL_ELEMENT_INT64, NEARCALL_ELEMENT_UINT8, NEARCALL_ELEMENT_UINT16, NEARCALL_ELEMENT_UINT32,
    NEARCALL_ELEMENT_UINT64, NEARCALL_ELEMENT_FLOAT32, NEARCALL_ELEMENT_FLOAT64
};

/*
 * A whole list: count elements of one type, as they lie in memory, at any alignment. It counts as
 * one value, and nothing else is put for its elements. They are copied before the function returns.
 *
 * In a request that was begun with NEARCALL_CODEC_PACKED, the list travels as one block if the server
 * takes blocks. Of floats, and of up to 1 MiB of integers, no element is looked at then. Short lists,
 * long lists of small integers, booleans that are neither 0 nor 1, and lists for other servers are
 * written as arrays. The function takes the same values in either form, but in a block the type of the
 * elements must be exactly the one that the description says.
 *
 * The codec of the reply says whether its lists may be blocks: then it is NEARCALL_CODEC_PACKED, and
 * nearcall_read() may return NEARCALL_PACKED where a list is. So begin requests with that
 * codec only if you read the reply accordingly. With other codecs no reply has a block.
 */
NEARCALL_API void nearcall_put_packed(nearcall_client *client, int element, const void *elements,
                                      size_t count);

/* Bytes as they are: a raw payload, JSON, or MessagePack that was encoded elsewhere. After
 * this and after nearcall_put_reserve() the library no longer counts values, so it is the
 * server that finds an array with too few of them. */
NEARCALL_API void nearcall_put_raw(nearcall_client *client, const void *data, size_t bytes);
/* Room for bytes, which the caller must fill before the next function on this handle. NULL
 * if there is none; the handle keeps the failure. */
NEARCALL_API void *nearcall_put_reserve(nearcall_client *client, size_t bytes);

/* For use right after a reservation: only so many of its bytes, the first ones, are used.
 * Returns NEARCALL_OK or the failure of the request, which the handle keeps. */
NEARCALL_API int nearcall_put_commit(nearcall_client *client, size_t bytes);

/* The same as nearcall_put_reserve(), but it returns NEARCALL_OK and sets *ret_data, or
 * returns the failure, which the handle keeps as well. This is the best way to build a raw
 * request: a large one then lies in shared memory from its first byte, and sending it
 * copies nothing. */
NEARCALL_API int nearcall_put_raw_reserve(nearcall_client *client, size_t bytes,
                                          uint8_t **ret_data);

/* Whether everything put since nearcall_request() has succeeded: NEARCALL_OK, or the
 * failure that is kept, which becomes an error of the handle. It is cheap. Use it while
 * walking through a large value, to stop as soon as the value does not fit a frame or nests
 * too deeply. */
NEARCALL_API int nearcall_put_check(nearcall_client *client);

/* ---- Reading MessagePack: no allocation, no recursion ---- */

enum {
    NEARCALL_NIL, NEARCALL_BOOL, NEARCALL_INT, NEARCALL_UINT, NEARCALL_FLOAT,
    NEARCALL_STRING, NEARCALL_BYTES, NEARCALL_ARRAY, NEARCALL_MAP,
    NEARCALL_TIME, NEARCALL_EXTENSION, NEARCALL_FILE, NEARCALL_PACKED
};

typedef struct nearcall_reader {
    const uint8_t *next; /* first byte not read yet */
    const uint8_t *end;
} nearcall_reader;

typedef struct nearcall_value {
    int type;                  /* NEARCALL_NIL ... */
    uint32_t count;            /* ARRAY: elements; MAP: pairs; STRING, BYTES, EXTENSION: bytes; TIME: nanoseconds; PACKED: elements */
    int8_t extension_type;     /* EXTENSION; PACKED: NEARCALL_ELEMENT_... */
    union {
        int boolean;
        int64_t integer;       /* INT: always negative numbers and all that fit; TIME: seconds since 1970;
                                  FILE: its number, for nearcall_take_file() */
        uint64_t unsigned_integer; /* UINT: only what does not fit in integer */
        double real;
        const uint8_t *data;   /* inside the reader's bytes, not NUL-terminated; PACKED: the elements,
                                  little-endian, at any alignment */
    } as;
} nearcall_value;

/*
 * Puts a whole request together and waits for its reply: the same as nearcall_request(), a nearcall_put_...
 * function for each of the values, and nearcall_request_call(), at the price of one of them. The first value
 * is the array of arguments, of type NEARCALL_ARRAY with their number as count; what is inside of an array or a
 * map follows it. Values are those of nearcall_read(), as far as nearcall_put_... functions that take no list
 * and no file could put them; an INT may be any number of 64 bits. Texts and bytes are copied before anything is
 * sent. codec is NEARCALL_CODEC_MSGPACK, or NEARCALL_CODEC_PACKED if the reply may have blocks.
 */
NEARCALL_API int nearcall_call_values(nearcall_client *client, nearcall_function *function, int codec,
                                      const nearcall_value *values, size_t count,
                                      int64_t timeout_ms, nearcall_reply *ret_reply);

/* The two functions below leave the reader where it was when they fail. */

/* Reads the next value. Of an array or a map it reads only the head; further calls read the
 * elements. Returns NEARCALL_OK; NEARCALL_E_OUT_OF_RANGE at the end; or
 * NEARCALL_E_INVALID_ARGUMENT for what is not MessagePack, is cut off, or announces more
 * elements than there are bytes. Strings are handed out as they arrived: check them if you
 * need valid UTF-8. */
NEARCALL_API int nearcall_read(nearcall_reader *reader, nearcall_value *ret_value);

/* Skips one value with everything inside it. Refuses nesting deeper than 32. */
NEARCALL_API int nearcall_skip(nearcall_reader *reader);

/*
 * Reads a whole list of numbers or booleans, whether it came as a block or as an array, and stores its
 * elements in memory that has room for capacity of them, in the byte order of this machine. A
 * boolean is a byte that is 0 or 1. For floats, whole numbers are taken as well. A float32 becomes
 * the nearest one; a number beyond the largest, other than infinity, is one that the type cannot hold.
 *
 * Returns what nearcall_read() returns; NEARCALL_E_INVALID_ARGUMENT also for what is no such list or
 * has an element that the type cannot hold; NEARCALL_E_RESOURCE_EXHAUSTED if there is
 * too little room, with *ret_count set: the reader then stays where it was. A block must
 * be of exactly that type.
 */
NEARCALL_API int nearcall_read_numbers(nearcall_reader *reader, int element, void *to,
                                       size_t capacity, size_t *ret_count);

/*
 * Does the same behind nearcall_read(), which has returned the list as ARRAY, PACKED or NIL. to has room for
 * list->count elements; NIL has none. A program that asks for the memory in between needs this: a server can
 * still write to a reply in shared memory, so another look at the head may find another number of elements.
 */
NEARCALL_API int nearcall_read_elements(nearcall_reader *reader, const nearcall_value *list, int element,
                                        void *to);

/*
 * Reads a list without copying it: *ret_elements points to its elements, which are as valid as the bytes
 * that are read. A reply may lie in memory that the server can still write to, so do not
 * look twice at an element on which something depends. Nobody has looked at booleans: a byte may be
 * neither 0 nor 1, so do not read it as a bool of C.
 *
 * NEARCALL_E_FAILED_PRECONDITION means that the list is no block of that type, or does not lie in memory as
 * this machine reads it (alignment, byte order). The reader then stays where it was, and
 * nearcall_read_numbers() reads the list.
 */
NEARCALL_API int nearcall_borrow_numbers(nearcall_reader *reader, int element,
                                         const void **ret_elements, size_t *ret_count);

/* An element of a list that nearcall_read() has returned as PACKED, as if it had come in an array: BOOL, INT,
 * UINT or FLOAT. NEARCALL_E_OUT_OF_RANGE means that there are not so many;
 * NEARCALL_E_INVALID_ARGUMENT that the list is none, or that a boolean is neither 0 nor 1. */
NEARCALL_API int nearcall_packed_at(const nearcall_value *list, uint32_t index,
                                    nearcall_value *ret_value);

/* The file or connection that a value of type NEARCALL_FILE stands for, in the reply that
 * was handed out last. The result is an open descriptor, close-on-exec, which belongs to
 * the caller from then on. The next function that is given the handle ends the reply and
 * closes the files that nobody has taken. NEARCALL_E_INVALID_ARGUMENT means that no such
 * file arrived or that it was taken before; the handle then has no message for it. A
 * connection may be non-blocking (O_NONBLOCK): see fcntl(2). */
NEARCALL_API int nearcall_take_file(nearcall_client *client, int64_t number);

#ifdef __cplusplus
}
#endif

#endif
