/*
 * nearcall_writer.h - values that are written apart from any handle
 *
 * This is a part of nearcall.h, which includes it. nearcall.h is the manual for handles,
 * errors, threads and forks.
 *
 *     nearcall_writer *writer;
 *     int r = nearcall_writer_new(&writer);
 *     if (r == NEARCALL_OK)
 *         r = nearcall_writer_begin(writer, add, NEARCALL_CODEC_MSGPACK);
 *     nearcall_write_array(writer, 2);
 *     nearcall_write_double(writer, 1.5);
 *     nearcall_write_double(writer, 0.25);
 *     if (r == NEARCALL_OK)
 *         r = nearcall_request_written(client, writer);
 *     if (r == NEARCALL_OK)
 *         r = nearcall_request_call(client, 0, &reply);
 *     nearcall_writer_free(writer);
 *
 * A program that puts one request together at a time needs no writer: the nearcall_put_...
 * functions of nearcall_values.h write into the handle's own. A writer is for requests that
 * are put together beside each other or ahead of their calls, and for MessagePack that goes
 * elsewhere.
 *
 * A writer belongs to no handle, and may be used by one thread at a time. It takes no lock, and
 * makes no system calls except for files. A forked child has a copy of it. A signal handler that
 * has interrupted one of its functions must not use it.
 */
#ifndef NEARCALL_WRITER_H
#define NEARCALL_WRITER_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is being written. Opaque. */
typedef struct nearcall_writer nearcall_writer;

/* Makes a writer, in the state that nearcall_writer_begin(writer, NULL, NEARCALL_CODEC_MSGPACK)
 * leaves it in. NEARCALL_E_RESOURCE_EXHAUSTED means that there is no memory. */
NEARCALL_API int nearcall_writer_new(nearcall_writer **ret_writer);

/* Frees a writer with all that it holds. writer may be NULL. */
NEARCALL_API void nearcall_writer_free(nearcall_writer *writer);

/*
 * Begins anew: what was written before is dropped, and at most 64 KiB of its memory are kept.
 * To write a request for nearcall_request_written(), pass the function whose arguments are
 * written. It must be one of the handle that will send them, which must stay open until
 * then. The arguments are encoded by the description that the function has at this moment
 * (see "Another server" in nearcall.h). For anything else pass NULL.
 *
 * For NEARCALL_CODEC_MSGPACK and NEARCALL_CODEC_PACKED exactly one value is written, such as the array of arguments. For
 * other codecs only nearcall_write_raw() and nearcall_write_reserve() write.
 */
NEARCALL_API int nearcall_writer_begin(nearcall_writer *writer, nearcall_function *function, int codec);

/* These write what their namesakes put (nearcall_values.h). They return nothing: the writer
 * keeps the first failure. */
NEARCALL_API void nearcall_write_nil(nearcall_writer *writer);
NEARCALL_API void nearcall_write_bool(nearcall_writer *writer, int value);
NEARCALL_API void nearcall_write_int(nearcall_writer *writer, int64_t value);
NEARCALL_API void nearcall_write_uint(nearcall_writer *writer, uint64_t value);
NEARCALL_API void nearcall_write_float(nearcall_writer *writer, float value);
NEARCALL_API void nearcall_write_double(nearcall_writer *writer, double value);
NEARCALL_API void nearcall_write_string(nearcall_writer *writer, const char *text, size_t bytes);
NEARCALL_API void nearcall_write_bytes(nearcall_writer *writer, const void *data, size_t bytes);
NEARCALL_API void nearcall_write_time(nearcall_writer *writer, int64_t seconds, uint32_t nanoseconds);
NEARCALL_API void nearcall_write_file(nearcall_writer *writer, int fd);
NEARCALL_API void nearcall_write_array(nearcall_writer *writer, uint32_t elements);
NEARCALL_API void nearcall_write_map(nearcall_writer *writer, uint32_t pairs);
NEARCALL_API void nearcall_write_packed(nearcall_writer *writer, int element, const void *elements,
                                        size_t count);

/* Bytes as they are. After this and after nearcall_write_reserve() values are no longer
 * counted. */
NEARCALL_API void nearcall_write_raw(nearcall_writer *writer, const void *data, size_t bytes);

/* Room for bytes, to be filled before the next function on this writer. NULL if there is
 * none; the writer keeps the failure. */
NEARCALL_API void *nearcall_write_reserve(nearcall_writer *writer, size_t bytes);

/* For use right after a reservation: only so many of its bytes, the first ones, are used.
 * NEARCALL_OK, or the failure that is kept. */
NEARCALL_API int nearcall_write_commit(nearcall_writer *writer, size_t bytes);

/* Returns NEARCALL_OK if everything that was written is complete, and otherwise the failure.
 * Unless ret_problem is NULL, *ret_problem then says what is wrong, in a text that is never
 * freed. */
NEARCALL_API int nearcall_writer_check(const nearcall_writer *writer, const char **ret_problem);

/* Hands out what was written, or returns the failure that nearcall_writer_check() returns. The
 * bytes belong to the writer, and are valid until it is used again. They contain the numbers of
 * files, not the files themselves. */
NEARCALL_API int nearcall_writer_data(const nearcall_writer *writer, const uint8_t **ret_data,
                                      size_t *ret_bytes);

/* Makes what was written the request of a handle, with its files: as if nearcall_request() had
 * begun it and the same had been put. Nothing is copied, and the writer is empty afterwards. A
 * failure that the writer has kept is returned by the function that sends. Like any other
 * request, it takes the place of one that was begun, and gives up an interrupted call. */
NEARCALL_API int nearcall_request_written(nearcall_client *client, nearcall_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
