/* Requests of launchers, as a worker takes them apart. What is accepted has the strings
 * that its header says, all of them within the request. */
#include <stdlib.h>
#include <string.h>

#include "base/limits_gen.h"
#include "fuzz.h"
#include "resident/request.h"

static const char *check_strings(char *const *strings, uint32_t count, const char *at, const char *end)
{
    for (uint32_t i = 0; i < count; i++) {
        at += strlen(at) + 1;
        FUZZ_CHECK(strings[i] == at && at < end);
    }
    FUZZ_CHECK(strings[count] == NULL);
    return at;
}

static void check_body(const struct nc_resident_request *request, const char *body, size_t bytes)
{
    const char *end = body + bytes;
    if (request->kind != NC_RESIDENT_RUN && bytes == 0) {
        FUZZ_CHECK(request->arguments == NULL);
        return;
    }
    FUZZ_CHECK(request->directory == body);
    const char *last = check_strings(request->arguments, request->arguments_count, body, end);
    last = check_strings(request->environment, request->environment_count, last, end);
    FUZZ_CHECK(last + strlen(last) + 1 == end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct nc_resident_request request;
    const char *fault = NULL;
    if (bytes < NC_RESIDENT_HEADER_BYTES)
        return 0;
    if (nc_resident_header_decode(&request, data, &fault) < 0) {
        FUZZ_CHECK(fault != NULL);
        return 0;
    }
    FUZZ_CHECK(request.bytes <= NC_RESIDENT_REQUEST_BYTES_MAX);
    FUZZ_CHECK((request.kind == NC_RESIDENT_RUN) == (request.arguments_count > 0));
    size_t rest = request.bytes - NC_RESIDENT_HEADER_BYTES;
    if (rest > bytes - NC_RESIDENT_HEADER_BYTES)
        return 0;
    /* In room of its own, so that a sanitizer sees what is read behind it. */
    char *body = malloc(rest ? rest : 1);
    FUZZ_CHECK(body != NULL);
    memcpy(body, data + NC_RESIDENT_HEADER_BYTES, rest);
    if (nc_resident_body_split(&request, body, &fault) == 0)
        check_body(&request, body, rest);
    else
        FUZZ_CHECK(fault != NULL);
    nc_resident_request_free(&request);
    free(body);
    return 0;
}
