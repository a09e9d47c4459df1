/*
 * nearcall_generated.h - what functions that `nearcall gen c` writes are made of
 *
 * The manual for handles, errors, threads and forks is nearcall.h.
 */
#ifndef NEARCALL_GENERATED_H
#define NEARCALL_GENERATED_H

#include "nearcall.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Finds the function, compares it with what the code was generated from, and begins a
 * request to it: nearcall_find(), nearcall_compare() and nearcall_request() with
 * NEARCALL_CODEC_MSGPACK. hash is NULL where nothing is to be compared. All of that and the
 * call have one time limit: *timeout_ms, as the caller gave it, becomes what is left of it
 * for nearcall_request_call(). Where nothing had to be asked it stays, and no clock is read.
 * sendings is 0, or what nearcall_generated_is_outdated() has left.
 */
NEARCALL_API int nearcall_generated_request(nearcall_client *client, const char *name,
                                            size_t name_bytes, const char *hash,
                                            const char *description, uint32_t sendings,
                                            int64_t *timeout_ms);

/* Whether nearcall_request_call(), which returned r, was refused because the server had been
 * replaced by one that describes the function otherwise: it did not run, and the request may
 * be begun again, in what is left of the call's time, to which *timeout_ms is set, and of its
 * attempts, of which *sendings were used. */
NEARCALL_API int nearcall_generated_is_outdated(const nearcall_client *client, int r,
                                                uint32_t *sendings, int64_t *timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
