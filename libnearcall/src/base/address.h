#ifndef NC_ADDRESS_H
#define NC_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

enum nc_address_kind { NC_ADDRESS_UNIX, NC_ADDRESS_ABSTRACT, NC_ADDRESS_TCP, NC_ADDRESS_TLS, NC_ADDRESS_EMBED };

#define NC_HOST_BYTES_MAX 253
#define NC_PORT_BYTES_MAX 5

enum nc_spin { NC_SPIN_AUTO, NC_SPIN_OFF, NC_SPIN_DEDICATED };

/* The least that silence_ms may be. */
#define NC_SILENCE_MS_LEAST 100

/* Whom the children of a process that has loaded a library call. */
enum nc_children { NC_CHILDREN_PARENT, NC_CHILDREN_OWN };

/* What is done about a server beyond loopback that is called over plain TCP. */
enum nc_plain { NC_PLAIN_WARN, NC_PLAIN_REFUSE, NC_PLAIN_QUIET };

/* A part of the text that was read, which belongs to whoever gave it. data is NULL when it was not given. */
struct nc_part {
    const char *data;
    size_t bytes;
};

struct nearcall_embed_library;

struct nc_address {
    enum nc_address_kind kind;
    bool shared_memory_off;
    enum nc_spin spin;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* without the '@' */
    const char *library; /* its path, in the text that was read */
    size_t library_bytes;
    enum nc_children children;
    /* Says who serves, and where; NULL until it is known. Not owned. */
    const struct nearcall_embed_library *embedded;
    char host[NC_HOST_BYTES_MAX + 1];
    char port[NC_PORT_BYTES_MAX + 1];
    bool has_silence;
    uint32_t silence_ms; /* how long the peer may leave bytes unanswered; 0: as long as the limit allows */
    enum nc_plain plain;
    struct nc_part authorities; /* paths of files, of tls: only */
    struct nc_part certificate;
    struct nc_part key;
    struct nc_part server_name;
};

/* Reads "unix:/path", "unix:@name", "tcp:host:port", "tcp:[::1]:port", "tls:host:port" and
 * "embed:path", each with the parameters that it may have behind a question mark. 0, or -1
 * with *ret_reason set to a static text. */
int nc_address_parse(struct nc_address *address, const char *text, bool allow_abstract,
                     const char **ret_reason);

#endif
