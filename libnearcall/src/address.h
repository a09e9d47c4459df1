#ifndef NC_ADDRESS_H
#define NC_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

enum nc_address_kind { NC_ADDRESS_UNIX, NC_ADDRESS_ABSTRACT, NC_ADDRESS_TCP };

#define NC_HOST_BYTES_MAX 253
#define NC_PORT_BYTES_MAX 5

enum nc_spin { NC_SPIN_AUTO, NC_SPIN_OFF, NC_SPIN_DEDICATED };

struct nc_address {
    enum nc_address_kind kind;
    bool shared_memory_off;
    enum nc_spin spin;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* without the '@' */
    char host[NC_HOST_BYTES_MAX + 1];
    char port[NC_PORT_BYTES_MAX + 1];
};

/* Reads "unix:/path", "unix:@name", "tcp:host:port", "tcp:[::1]:port", and behind
 * those of unix: the parameters shm and spin. 0, or -1
 * with *ret_reason set to a static text. */
int nc_address_parse(struct nc_address *address, const char *text, bool allow_abstract,
                     const char **ret_reason);

#endif
