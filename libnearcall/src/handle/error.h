/* The error that the user of a handle reads: what of it, and how it comes to be. */
#ifndef NC_HANDLE_ERROR_H
#define NC_HANDLE_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits_gen.h"
#include "nearcall.h"

struct nc_call;

struct nc_error {
    int code;
    int outcome;
    const uint8_t *details;
    size_t details_bytes;
    int64_t deadline_ns; /* of the call that failed last */
    const nearcall_function *changed; /* it is not what generated code was made for; NULL: something else failed */
    char message[NC_ERROR_MESSAGE_BYTES_MAX + 1];
};

/* code is NEARCALL_E_...; returns it. */
int nc_fail(nearcall_client *client, int code, int outcome, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int nc_fail_no_memory(nearcall_client *client, const char *what);
int nc_fail_table_full(nearcall_client *client);
int nc_fail_as_call(nearcall_client *client, const struct nc_call *call);
void nc_error_clear(nearcall_client *client);
/* Whether a detail of an error, which is valid, says that it is this limit that was reached; NULL: any limit. */
bool nc_error_names_limit(const uint8_t *data, size_t bytes, const char *limit);
/* The message of an error, cut if there is no room for all of it; "" if there is none. */
void nc_error_message(const uint8_t *data, size_t bytes, char *message, size_t message_bytes);
/* The array of its details; NULL: it has none. */
const uint8_t *nc_error_details(const uint8_t *data, size_t bytes, size_t *ret_bytes);
bool nc_error_payload_is_valid(const uint8_t *data, size_t bytes);

#endif
