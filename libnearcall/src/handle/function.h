/* A function of the server, as a handle knows it. */
#ifndef NC_HANDLE_FUNCTION_H
#define NC_HANDLE_FUNCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "nearcall.h"

/* One block, replaced as a whole, so that a fork at any moment finds either. */
struct nc_description {
    uint32_t check; /* of the hash, as a request carries it; 0 without one */
    char hash[NC_HASH_DIGITS + 1]; /* "" from a server that does not say it */
    bool is_idempotent; /* the function may run several times for one request */
    size_t bytes;
    uint8_t data[];
};

/* By which description a request was encoded. */
struct nc_encoding {
    bool by_description;
    bool has_blocks; /* only a server that takes packed lists can read it */
    uint32_t check;
    uint64_t schema_hash; /* under which the description was learned */
};

/* Servers of that schema do not have the function. */
struct nc_absence {
    uint64_t schema_hash;
    int64_t until_ns; /* it is asked for again from then on; 0: nothing is known */
};
#define NC_ABSENCES 4

/* Of how many further schemas the description is remembered to be the same. */
#define NC_SAME_SCHEMAS 3

struct nearcall_function {
    nearcall_function *next; /* in its bucket */
    struct nc_description *description; /* NULL until the first RESOLVE was answered */
    uint64_t description_hash; /* the schema it was learned under */
    /* Other schemas under which it is the same; 0: none. Only if the address has several endpoints. */
    uint64_t same_hashes[NC_SAME_SCHEMAS];
    struct nc_absence absent[NC_ABSENCES]; /* only if the address has several endpoints */
    uint8_t absences; /* how many were noted */
    bool is_refused; /* the server has another one: the next to ask for it learns which */
    bool takes_blocks; /* its server reads packed lists */
    bool was_unsent; /* a request that was encoded by it may not be sent: whatever encodes looks again */
    uint64_t refused_schema_hash; /* of the server that refused it */
    struct nc_fit { /* generated code of one description may call the function of another */
        char generated_hash[NC_HASH_DIGITS + 1]; /* "": nothing is known */
        char function_hash[NC_HASH_DIGITS + 1]; /* "": whatever servers of the schema have, which cannot say */
        uint64_t schema_hash;
    } fit;
    uint64_t id_hash;
    uint32_t id; /* 0: not known */
    uint32_t library_number; /* in the library of this process; 0: not known */
    uint32_t revision; /* 0: never handed to the user, may be freed */
    uint16_t name_bytes;
    char name[];
};

/* All that were ever named, by name. Owned by functions/. */
#define NC_FUNCTION_BUCKETS 64

struct nc_functions {
    nearcall_function *buckets[NC_FUNCTION_BUCKETS];
    nearcall_function *last; /* the one that was looked up last, or NULL */
    unsigned begun_anew; /* requests of generated code, since the last one that could be put */
};

#endif
