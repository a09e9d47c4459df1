#ifndef NC_ADDRESS_H
#define NC_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

enum nc_address_kind { NC_ADDRESS_UNIX, NC_ADDRESS_ABSTRACT, NC_ADDRESS_TCP, NC_ADDRESS_EMBED };

#define NC_HOST_BYTES_MAX 253
#define NC_PORT_BYTES_MAX 5

enum nc_spin { NC_SPIN_AUTO, NC_SPIN_OFF, NC_SPIN_DEDICATED };

/* Whom the children of a process that has loaded a library call. */
enum nc_children { NC_CHILDREN_PARENT, NC_CHILDREN_OWN };

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
};

/* Reads "unix:/path", "unix:@name", "tcp:host:port", "tcp:[::1]:port", "embed:path", and
 * behind those of unix: and embed: the parameters shm and spin, behind embed: also
 * children. 0, or -1 with *ret_reason set to a static text. */
int nc_address_parse(struct nc_address *address, const char *text, bool allow_abstract,
                     const char **ret_reason);

#endif
