#include "resident/request.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/limits_gen.h"

static const uint8_t magic[8] = {NC_RESIDENT_FIRST_BYTE, 'N', 'C', 'R', 0x0D, 0x0A, 0x1A, 0x0A};

#define VERSION 1

static uint32_t get(const uint8_t *data, size_t bytes)
{
    uint32_t value = 0;
    for (size_t i = bytes; i > 0; i--)
        value = value << 8 | data[i - 1];
    return value;
}

static void put(uint8_t *data, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        data[i] = (uint8_t)(value >> 8 * i);
}

static bool is_of_other_version(const uint8_t *header)
{
    return get(header + 12, 2) != VERSION;
}

static const char *header_fault(const struct nc_resident_request *request, const uint8_t *header)
{
    bool runs = request->kind == NC_RESIDENT_RUN;
    if (memcmp(header, magic, sizeof(magic)) != 0)
        return "it is no request to a resident";
    if (is_of_other_version(header))
        return "its request is of another version than the resident's";
    if (request->bytes < NC_RESIDENT_HEADER_BYTES)
        return "it is shorter than its header";
    if (request->bytes > NC_RESIDENT_REQUEST_BYTES_MAX)
        return "it is too long";
    if (request->kind < NC_RESIDENT_RUN || request->kind > NC_RESIDENT_STOP)
        return "it is of no kind that there is";
    if (runs && request->umask > 0777)
        return "its umask is none";
    if (runs ? request->arguments_count == 0 : request->arguments_count > 0 || request->environment_count > 0)
        return "it has arguments, or lacks them";
    return NULL;
}

int nc_resident_header_decode(struct nc_resident_request *request, const uint8_t *header,
                              const char **ret_fault)
{
    *request = (struct nc_resident_request){
        .bytes = get(header + 8, 4),
        .kind = (uint16_t)get(header + 14, 2),
        .umask = get(header + 20, 4),
        .rows = (uint16_t)get(header + 24, 2),
        .columns = (uint16_t)get(header + 26, 2),
        .arguments_count = get(header + 28, 4),
        .environment_count = get(header + 32, 4),
        .keyring = get(header + 36, 4),
    };
    const char *fault = header_fault(request, header);
    if (!fault)
        return 0;
    *ret_fault = fault;
    return memcmp(header, magic, sizeof(magic)) == 0 && is_of_other_version(header) ? NC_RESIDENT_OTHER_VERSION
                                                                                    : NC_RESIDENT_NO_REQUEST;
}

static size_t count_strings(const char *body, size_t bytes)
{
    size_t count = 0;
    const char *end = body + bytes;
    for (const char *nul = body; nul < end && (nul = memchr(nul, 0, (size_t)(end - nul))) != NULL; nul++)
        count++;
    return count;
}

int nc_resident_body_split(struct nc_resident_request *request, char *body, const char **ret_fault)
{
    size_t bytes = request->bytes - NC_RESIDENT_HEADER_BYTES;
    size_t arguments = request->arguments_count, variables = request->environment_count;
    if (request->kind != NC_RESIDENT_RUN && bytes == 0)
        return 0;
    *ret_fault = "its arguments and variables are not as many as it says";
    if (bytes == 0 || body[bytes - 1] != 0 || count_strings(body, bytes) != 1 + arguments + variables)
        return -1;
    char **strings = malloc((arguments + variables + 2) * sizeof(*strings));
    if (!strings)
        return -2;
    request->directory = body;
    request->arguments = strings;
    request->environment = strings + arguments + 1;
    for (size_t i = 0; i < arguments + variables; i++) {
        body += strlen(body) + 1;
        strings[i + (i >= arguments)] = body;
    }
    request->arguments[arguments] = request->environment[variables] = NULL;
    return 0;
}

void nc_resident_request_free(struct nc_resident_request *request)
{
    free(request->arguments);
    request->arguments = request->environment = NULL;
}

int nc_resident_send_frame(int fd, enum nc_resident_frame type, uint32_t value, uint32_t second,
                           const char *text)
{
    uint8_t header[NC_RESIDENT_FRAME_BYTES];
    size_t bytes = text ? strlen(text) : 0;
    bytes = bytes < NC_RESIDENT_TEXT_BYTES_MAX ? bytes : NC_RESIDENT_TEXT_BYTES_MAX;
    put(header, (uint32_t)type);
    put(header + 4, value);
    put(header + 8, second);
    put(header + 12, (uint32_t)bytes);
    struct iovec parts[] = {{header, sizeof(header)}, {(void *)(uintptr_t)text, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes ? 2 : 1};
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)(sizeof(header) + bytes) ? 0 : -1;
}
