#include "base/address.h"

#include <string.h>

#include "base/limits_gen.h"

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
                                  "use a path, or allow it by NEARCALL_ALLOW_ABSTRACT (in Perl "
                                  "and Python allow_abstract)");
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

/* Of a "tcp:" or "tls:" address. */
static int parse_host(struct nc_address *address, enum nc_address_kind kind, const char *text, size_t bytes,
                      const char **ret_reason)
{
    const char *colon = memrchr(text, ':', bytes);
    if (!colon || colon == text)
        return refuse(ret_reason, kind == NC_ADDRESS_TLS
                                      ? "after tls: come host and port, as tls:shop.example.com:7000"
                                      : "after tcp: come host and port, as tcp:127.0.0.1:7000");
    const char *host = text;
    size_t host_bytes = (size_t)(colon - text);
    if (host_bytes >= 2 && host[0] == '[' && host[host_bytes - 1] == ']') {
        host++;
        host_bytes -= 2;
    } else if (memchr(host, ':', host_bytes)) {
        return refuse(ret_reason, "an IPv6 address stands in brackets, as [::1]:7000");
    }
    if (host_bytes == 0 || !copy(address->host, sizeof(address->host), host, host_bytes))
        return refuse(ret_reason, "the host's name is empty or longer than 253 bytes");
    size_t port_bytes = bytes - (size_t)(colon + 1 - text);
    if (!is_port(colon + 1, port_bytes))
        return refuse(ret_reason, "the port is a number from 1 to 65535");
    copy(address->port, sizeof(address->port), colon + 1, port_bytes);
    address->kind = kind;
    return 0;
}

static int parse_embed(struct nc_address *address, const char *text, size_t bytes,
                       const char **ret_reason)
{
    if (bytes == 0)
        return refuse(ret_reason, "after embed: comes the path of a Go library built with "
                                  "`nearcall build`, as embed:/srv/app/libdemo.so");
    address->kind = NC_ADDRESS_EMBED;
    address->library = text;
    address->library_bytes = bytes;
    return 0;
}

/* ---- Parameters ---- */

static bool is(const char *text, size_t bytes, const char *setting)
{
    return bytes == strlen(setting) && memcmp(text, setting, bytes) == 0;
}

/* What follows "key=" in the text; false: it is another key. */
static bool value_of(const char *text, size_t bytes, const char *key, struct nc_part *ret_value)
{
    size_t key_bytes = strlen(key);
    if (bytes < key_bytes || memcmp(text, key, key_bytes) != 0)
        return false;
    *ret_value = (struct nc_part){text + key_bytes, bytes - key_bytes};
    return true;
}

/* Each of these tells whether the setting is one of its kind, and of an allowed value. */

static bool apply_memory(struct nc_address *address, const char *text, size_t bytes)
{
    if (is(text, bytes, "shm=off"))
        address->shared_memory_off = true;
    else if (is(text, bytes, "spin=auto"))
        address->spin = NC_SPIN_AUTO;
    else if (is(text, bytes, "spin=off"))
        address->spin = NC_SPIN_OFF;
    else if (is(text, bytes, "spin=dedicated"))
        address->spin = NC_SPIN_DEDICATED;
    else
        return is(text, bytes, "shm=auto");
    return true;
}

/* Which process of many calls which. */
static bool apply_children(struct nc_address *address, const char *text, size_t bytes)
{
    if (is(text, bytes, "children=own"))
        address->children = NC_CHILDREN_OWN;
    else if (is(text, bytes, "children=parent"))
        address->children = NC_CHILDREN_PARENT;
    else
        return false;
    return true;
}

static bool apply_silence(struct nc_address *address, const char *text, size_t bytes)
{
    struct nc_part value;
    uint32_t ms = 0;
    if (!value_of(text, bytes, "silence=", &value) || value.bytes == 0)
        return false;
    for (size_t i = 0; i < value.bytes && !is(value.data, value.bytes, "off"); i++) {
        if (value.data[i] < '0' || value.data[i] > '9' || ms > NC_TCP_SILENCE_MS_CEILING)
            return false;
        ms = ms * 10 + (uint32_t)(value.data[i] - '0');
    }
    if (!is(value.data, value.bytes, "off") && (ms < NC_SILENCE_MS_LEAST || ms > NC_TCP_SILENCE_MS_CEILING))
        return false;
    address->has_silence = true;
    address->silence_ms = ms;
    return true;
}

static bool apply_plain(struct nc_address *address, const char *text, size_t bytes)
{
    if (is(text, bytes, "plain=warn"))
        address->plain = NC_PLAIN_WARN;
    else if (is(text, bytes, "plain=refuse"))
        address->plain = NC_PLAIN_REFUSE;
    else if (is(text, bytes, "plain=quiet"))
        address->plain = NC_PLAIN_QUIET;
    else
        return false;
    return true;
}

static bool apply_tls(struct nc_address *address, const char *text, size_t bytes)
{
    struct nc_part *parts[] = {&address->authorities, &address->certificate, &address->key, &address->server_name};
    static const char *const keys[] = {"ca=", "cert=", "key=", "name="};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (value_of(text, bytes, keys[i], parts[i]))
            return parts[i]->bytes > 0;
    return false;
}

static int apply(struct nc_address *address, const char *text, size_t bytes, const char **ret_reason)
{
    switch (address->kind) {
    case NC_ADDRESS_TCP:
        if (apply_silence(address, text, bytes) || apply_plain(address, text, bytes))
            return 0;
        return refuse(ret_reason, "the parameters of tcp: addresses are silence=off or 100 to 300000 (ms), and "
                                  "plain=warn, plain=refuse and plain=quiet, with & between them; shm and spin "
                                  "are for unix: and embed: addresses");
    case NC_ADDRESS_TLS:
        if (apply_silence(address, text, bytes) || apply_tls(address, text, bytes))
            return 0;
        return refuse(ret_reason, "the parameters of tls: addresses are ca=, cert= and key= with paths of files, "
                                  "name= with the name in the server's certificate, and silence=off or 100 to "
                                  "300000 (ms), with & between them");
    case NC_ADDRESS_EMBED:
        if (apply_children(address, text, bytes))
            return 0;
        break;
    default:
        break;
    }
    if (apply_memory(address, text, bytes))
        return 0;
    return refuse(ret_reason, "the parameters are shm=auto, shm=off, spin=auto, spin=off and "
                              "spin=dedicated, for embed: also children=parent and "
                              "children=own, with & between them");
}

static int check_tls(const struct nc_address *address, const char **ret_reason)
{
    if (!address->key.data || address->certificate.data)
        return 0;
    return refuse(ret_reason, "key= is the file with the key of a certificate: name the certificate too, by cert=");
}

/* text is what follows the question mark. */
static int parse_parameters(struct nc_address *address, const char *text, const char **ret_reason)
{
    if (*text == '\0')
        return 0;
    for (;;) {
        size_t bytes = strcspn(text, "&");
        if (apply(address, text, bytes, ret_reason) < 0)
            return -1;
        if (text[bytes] == '\0')
            return check_tls(address, ret_reason);
        text += bytes + 1;
    }
}

/* ---- Addresses ---- */

static int parse_target(struct nc_address *address, const char *text, size_t bytes,
                        bool allow_abstract, const char **ret_reason)
{
    if (bytes >= 5 && memcmp(text, "unix:", 5) == 0)
        return parse_unix(address, text + 5, bytes - 5, allow_abstract, ret_reason);
    if (bytes >= 4 && memcmp(text, "tcp:", 4) == 0)
        return parse_host(address, NC_ADDRESS_TCP, text + 4, bytes - 4, ret_reason);
    if (bytes >= 4 && memcmp(text, "tls:", 4) == 0)
        return parse_host(address, NC_ADDRESS_TLS, text + 4, bytes - 4, ret_reason);
    if (bytes >= 6 && memcmp(text, "embed:", 6) == 0)
        return parse_embed(address, text + 6, bytes - 6, ret_reason);
    return refuse(ret_reason, "an address begins with unix:, tcp:, tls: or embed:");
}

static bool begins_endpoint(const char *text)
{
    static const char *const schemes[] = {"unix:", "tcp:", "tls:", "embed:"};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

/* ---- Several endpoints ---- */

static struct nc_part trimmed(const char *text, size_t bytes)
{
    for (; bytes > 0 && *text == ' '; bytes--)
        text++;
    while (bytes > 0 && text[bytes - 1] == ' ')
        bytes--;
    return (struct nc_part){text, bytes};
}

/* The group that text begins with. A path may have bars in it, so a bar ends a group only if an endpoint
 * follows. *ret_next is what follows, or NULL. */
static struct nc_part first_group(const char *text, const char **ret_next)
{
    const char *bar = strchr(text, '|');
    while (bar && !begins_endpoint(bar + 1 + strspn(bar + 1, " ")))
        bar = strchr(bar + 1, '|');
    *ret_next = bar ? bar + 1 + strspn(bar + 1, " ") : NULL;
    size_t bytes = bar ? (size_t)(bar - text) : strlen(text);
    while (bar && bytes > 0 && text[bytes - 1] == ' ')
        bytes--;
    return (struct nc_part){text, bytes};
}

/* Where the next endpoint begins in the rest of a group, or its end: only hosts can be several, because a path
 * may have commas in it. */
static const char *end_of_host(const char *text, const char *end, bool has_hosts)
{
    const char *comma = has_hosts ? memchr(text, ',', (size_t)(end - text)) : NULL;
    return comma ? comma : end;
}

static unsigned split_group(struct nc_part group, unsigned distance, struct nc_endpoint_text *endpoints,
                            unsigned count_max)
{
    const char *end = group.data + group.bytes;
    const char *question = memchr(group.data, '?', group.bytes);
    const char *targets_end = question ? question : end;
    bool has_hosts = strncmp(group.data, "tcp:", 4) == 0 || strncmp(group.data, "tls:", 4) == 0;
    unsigned count = 0;
    for (const char *from = group.data, *to = from; to < targets_end || count == 0; from = to + 1, count++) {
        to = end_of_host(from, targets_end, has_hosts);
        if (count >= count_max)
            continue;
        endpoints[count] = (struct nc_endpoint_text){
            .target = has_hosts ? trimmed(from, (size_t)(to - from)) : (struct nc_part){from, (size_t)(to - from)},
            .scheme = {group.data, count ? strlen("tcp:") : 0},
            .parameters = {targets_end, (size_t)(end - targets_end)},
            .group = distance,
        };
    }
    return count;
}

unsigned nc_address_split(const char *text, struct nc_endpoint_text *endpoints, unsigned count_max)
{
    unsigned count = 0;
    for (unsigned distance = 0; text; distance++) {
        struct nc_part group = first_group(text, &text);
        unsigned told = count < count_max ? count : count_max;
        count += split_group(group, distance, endpoints + told, count_max - told);
    }
    return count;
}

int nc_address_parse(struct nc_address *address, const char *text, bool allow_abstract,
                     const char **ret_reason)
{
    struct nc_endpoint_text none[1];
    memset(address, 0, sizeof(*address));
    if (nc_address_split(text, none, 0) > 1)
        return refuse(ret_reason, "it has several endpoints, and one is needed here: only callers take a list");
    size_t bytes = strcspn(text, "?");
    if (parse_target(address, text, bytes, allow_abstract, ret_reason) < 0)
        return -1;
    return text[bytes] ? parse_parameters(address, text + bytes + 1, ret_reason) : 0;
}
