/* Hosts, as a front compares them. */
#include <stdbool.h>
#include <string.h>

#include "handoff/handoff.h"

/* How long it is without the final dot, which means nothing. */
static size_t plain_bytes(const char *name, size_t bytes)
{
    return bytes > 0 && name[bytes - 1] == '.' ? bytes - 1 : bytes;
}

/* The colons of an IPv6 address are within brackets. */
static size_t name_bytes(const char *host)
{
    const char *colon = strrchr(host, ':');
    size_t bytes = colon != NULL && strchr(colon, ']') == NULL ? (size_t)(colon - host) : strlen(host);
    return plain_bytes(host, bytes);
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* Names have no locale: in that of a Turkish program strncasecmp() tells I from i. */
static bool same_name(const char *a, const char *b, size_t bytes)
{
    size_t same = 0;
    while (same < bytes && lower(a[same]) == lower(b[same]))
        same++;
    return same == bytes;
}

NEARCALL_API int nearcall_handoff_host_matches(const char *host, const char *pattern)
{
    if (host == NULL || pattern == NULL)
        return 0;
    bool below = pattern[0] == '*';
    const char *domain = below ? pattern + 1 : pattern;
    size_t bytes = name_bytes(host);
    size_t domain_bytes = plain_bytes(domain, strlen(domain));
    if (below ? domain_bytes > 0 && bytes <= domain_bytes : bytes != domain_bytes)
        return 0;
    if (domain_bytes == 0)
        return 1;
    return same_name(host + (bytes - domain_bytes), domain, domain_bytes);
}
