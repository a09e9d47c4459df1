#ifndef NC_ADDRESS_H
#define NC_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

enum nc_address_kind { NC_ADDRESS_UNIX, NC_ADDRESS_ABSTRACT, NC_ADDRESS_TCP, NC_ADDRESS_TLS, NC_ADDRESS_EMBED };

#define NC_HOST_BYTES_MAX 253
#define NC_PORT_BYTES_MAX 5
#define NC_ANSWER_BYTES_MAX 63 /* of a number with the name of an interface */

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
    char answer[NC_ANSWER_BYTES_MAX + 1]; /* the host's number, if its name was looked up already; "" otherwise */
    bool has_silence;
    uint32_t silence_ms; /* how long the peer may leave bytes unanswered; 0: as long as the limit allows */
    enum nc_plain plain;
    struct nc_part authorities; /* paths of files, of tls: only */
    struct nc_part certificate;
    struct nc_part key;
    struct nc_part server_name;
};

/* One endpoint of an address, as parts of its text. */
struct nc_endpoint_text {
    struct nc_part target; /* a scheme and a colon, and what follows; of the second host of a group without the scheme */
    struct nc_part scheme; /* with the colon; of the second host of a group and those after it only */
    struct nc_part parameters; /* with the question mark, or empty */
    unsigned group; /* how far away it is: 0 is nearest */
};

/* Splits an address into its endpoints. How many it has, of which only the first count_max are told. */
unsigned nc_address_split(const char *text, struct nc_endpoint_text *endpoints, unsigned count_max);

/* Reads the address of one endpoint: "unix:/path", "unix:@name", "tcp:host:port", "tcp:[::1]:port", "tls:host:port" and
 * "embed:path", each with the parameters that it may have behind a question mark. 0, or -1
 * with *ret_reason set to a static text. */
int nc_address_parse(struct nc_address *address, const char *text, bool allow_abstract,
                     const char **ret_reason);

#endif
