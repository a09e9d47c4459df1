/*
 * nearcall_generated.h - what the functions that `nearcall gen c` writes are made of
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
 * Finds the function, compares it with the description from which the code was generated,
 * and begins a request to it. It does what nearcall_find(), nearcall_compare() and
 * nearcall_request() with NEARCALL_CODEC_MSGPACK do. hash is NULL if nothing is to be
 * compared. All of that and the call share one time limit: *timeout_ms is what the caller
 * has given, and becomes what is left of it for nearcall_request_call(). If the server need
 * not be asked it stays the same, and no clock is read. sendings is 0, or what
 * nearcall_generated_is_outdated() has set.
 */
NEARCALL_API int nearcall_generated_request(nearcall_client *client, const char *name,
                                            size_t name_bytes, const char *hash,
                                            const char *description, uint32_t sendings,
                                            int64_t *timeout_ms);

/*
 * For generated code that warns: nearcall_generated_request() has just failed because the
 * function has changed incompatibly. Tells nearcall_on_log() what has changed, once, and lets
 * this code call the function until it changes again. Then begin the request again. If the
 * server was replaced meanwhile nothing is told yet, as its successor has to be asked.
 * NEARCALL_E_FAILED_PRECONDITION, with the error as it was: something else has failed.
 */
NEARCALL_API int nearcall_generated_go_on(nearcall_client *client, const char *name,
                                          size_t name_bytes, const char *hash);

/* Reports whether nearcall_request_call(), which has returned r, was refused because the
 * server was replaced by one that describes the function differently. The function then did
 * not run, and the request may be begun again: *timeout_ms is set to what is left of the
 * call's time, and *sendings to how many of its attempts were used. */
NEARCALL_API int nearcall_generated_is_outdated(const nearcall_client *client, int r,
                                                uint32_t *sendings, int64_t *timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
