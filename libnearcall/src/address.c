#include "address.h"

#include <string.h>

static int refuse(const char **ret_reason, const char *reason)
{
    *ret_reason = reason;
    return -1;
}

/* Copies text[0..bytes) as a string; false when it does not fit. */
static bool copy(char *to, size_t capacity, const char *text, size_t bytes)
{
    if (bytes >= capacity)
        return false;
    memcpy(to, text, bytes);
    to[bytes] = '\0';
    return true;
}

static int parse_unix(struct nc_address *address, const char *text, size_t bytes,
                      bool allow_abstract, const char **ret_reason)
{
    if (bytes > 0 && text[0] == '/') {
        address->kind = NC_ADDRESS_UNIX;
        if (!copy(address->path, sizeof(address->path), text, bytes))
            return refuse(ret_reason, "a socket's path has at most 107 bytes");
        return 0;
    }
    if (bytes < 2 || text[0] != '@')
        return refuse(ret_reason, "after unix: comes an absolute path, as unix:/run/demo.sock");
    if (!allow_abstract)
        return refuse(ret_reason, "any user may take an abstract name; "
                                  "use a path, or allow it by NEARCALL_ALLOW_ABSTRACT");
    address->kind = NC_ADDRESS_ABSTRACT;
    if (!copy(address->path, sizeof(address->path), text + 1, bytes - 1))
        return refuse(ret_reason, "an abstract name has at most 107 bytes");
    return 0;
}

static bool is_port(const char *text, size_t bytes)
{
    unsigned long port = 0;
    if (bytes == 0 || bytes > NC_PORT_BYTES_MAX)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned long)(text[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

static int parse_tcp(struct nc_address *address, const char *text, size_t bytes,
                     const char **ret_reason)
{
    const char *colon = memrchr(text, ':', bytes);
    if (!colon || colon == text)
        return refuse(ret_reason, "after tcp: come host and port, as tcp:127.0.0.1:7000");
    const char *host = text;
    size_t host_bytes = (size_t)(colon - text);
    if (host_bytes >= 2 && host[0] == '[' && host[host_bytes - 1] == ']') {
        host++;
        host_bytes -= 2;
    } else if (memchr(host, ':', host_bytes)) {
        return refuse(ret_reason, "an IPv6 address stands in brackets, as tcp:[::1]:7000");
    }
    if (host_bytes == 0 || !copy(address->host, sizeof(address->host), host, host_bytes))
        return refuse(ret_reason, "the host's name is empty or longer than 253 bytes");
    size_t port_bytes = bytes - (size_t)(colon + 1 - text);
    if (!is_port(colon + 1, port_bytes))
        return refuse(ret_reason, "the port is a number from 1 to 65535");
    copy(address->port, sizeof(address->port), colon + 1, port_bytes);
    address->kind = NC_ADDRESS_TCP;
    return 0;
}

int nc_address_parse(struct nc_address *address, const char *text, bool allow_abstract,
                     const char **ret_reason)
{
    memset(address, 0, sizeof(*address));
    size_t bytes = strcspn(text, "?");
    if (text[bytes] == '?' && text[bytes + 1] != '\0')
        return refuse(ret_reason, "no parameter is defined in this version; remove what follows the ?");
    if (bytes >= 5 && memcmp(text, "unix:", 5) == 0)
        return parse_unix(address, text + 5, bytes - 5, allow_abstract, ret_reason);
    if (bytes >= 4 && memcmp(text, "tcp:", 4) == 0)
        return parse_tcp(address, text + 4, bytes - 4, ret_reason);
    return refuse(ret_reason, "an address begins with unix: or tcp:");
}
