/* Which of several endpoints of an address a call goes to. A choice is told what became of calls and of
 * connections, and it is asked for the next endpoint. It has no clock and makes no connections. It decides as
 * internal/endpoints does for clients in Go, which has the rules; both are held to the same steps by
 * internal/endpoints/testdata/steps.txt. Calls in flight are not counted here: a handle turns to another endpoint
 * only while it has none on its connection, so that no endpoint ever has fewer than another one. What servers say of
 * their load is not looked at either.
 * May include: base. */
#ifndef NC_CHOICE_H
#define NC_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits_gen.h"

#define NC_CHOICE_NONE (-1)

/* A set of endpoints, by their index. */
typedef uint32_t nc_endpoint_bits;
#define NC_ENDPOINT_BIT(index) ((nc_endpoint_bits)1 << (index))

enum nc_endpoint_state {
    NC_ENDPOINT_READY,
    NC_ENDPOINT_FAILED, /* connecting failed, or a connection was lost */
    NC_ENDPOINT_SILENT, /* the same, because nothing came from it for too long */
    NC_ENDPOINT_FULL /* it had no room for a call */
};

struct nc_choice {
    struct nc_choice_member {
        bool present;
        bool beside; /* calls must not find out whether it is back: see nc_choice_probe() */
        unsigned group; /* smaller ones are nearer */
        enum nc_endpoint_state state;
        unsigned failures;
        int64_t until_ns; /* it rests until then */
        int64_t length_ns; /* of the last rest */
    } members[NC_ADDRESS_ENDPOINTS_MAX];
};

/* The index of the new endpoint, or NC_CHOICE_NONE: there is no room. */
int nc_choice_add(struct nc_choice *choice, unsigned group, bool beside);

/* Its index may be used again. */
void nc_choice_remove(struct nc_choice *choice, int index);

/* Whether it is the only one of its group, and no group is nearer. */
bool nc_choice_is_alone(const struct nc_choice *choice, int index);

/* Whether there is an endpoint that is not among those. */
bool nc_choice_has_others(const struct nc_choice *choice, nc_endpoint_bits those);

/* The nearest among those, whether it rests or not; NC_CHOICE_NONE if there is none. */
int nc_choice_nearest(const struct nc_choice *choice, nc_endpoint_bits those);

/* The endpoint for a call that does not want those in not; NC_CHOICE_NONE if none is left. random is the state of
 * nc_random(). *ret_rests: it is still to be left alone, and so are all others. */
int nc_choice_pick(struct nc_choice *choice, int64_t now_ns, uint64_t *random, nc_endpoint_bits not, bool *ret_rests);

/* An endpoint whose rest is over and which must be tried beside calls, in a group up to this one; NC_CHOICE_NONE
 * if there is none. It is not returned again until another rest has passed. */
int nc_choice_probe(struct nc_choice *choice, int64_t now_ns, unsigned group);

/* Connecting to it failed, a connection to it was lost, or nothing has come from it for too long. */
void nc_choice_failed(struct nc_choice *choice, int index, int64_t now_ns, uint64_t *random);
void nc_choice_silent(struct nc_choice *choice, int index, int64_t now_ns, uint64_t *random);

/* It was connected to. */
void nc_choice_succeeded(struct nc_choice *choice, int index);

/* It had no room for a call. */
void nc_choice_full(struct nc_choice *choice, int index, int64_t now_ns);

/* What is known of it, and for how long it is still left alone. */
enum nc_endpoint_state nc_choice_look(const struct nc_choice *choice, int index, int64_t now_ns, int64_t *ret_rests_ns);

#endif
