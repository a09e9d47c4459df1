/* What tests of calls that were begun, and of which the server is asked, have in common: a scripted server that
 * loses connections and answers questions, and an event loop. */
#ifndef ASKED_TEST_H
#define ASKED_TEST_H

#include "handle/call.h"
#include "script.h"

#define KEY_OF_LOST 0xA1
#define KEY_OF_NEXT 0xE2
#define CALLS_MAX (NC_ASKED_CALLS_MAX + 88)
#define TIMEOUT_MS 20000

enum { NEVER, RECEIVED, STARTED, FINISHED };

/* ---- The server's side ---- */

void asked_greet(struct script *script, uint8_t key);

/* Describes the function, takes as many requests, and loses their connection. */
void asked_lose(struct script *script, uint8_t key, unsigned count, uint64_t *ids);

struct question {
    uint64_t id;
    uint32_t deadline_ms;
    uint8_t key;
    unsigned count;
    uint64_t asked[NC_ASKED_CALLS_MAX];
};

void asked_read(struct script *script, struct question *question);
/* The same; it is about these calls of the connection with KEY_OF_LOST. */
void asked_expect(struct script *script, struct question *question, const uint64_t *ids, unsigned count);
void asked_answer(struct script *script, const struct question *question, const uint8_t *stages);

/* ---- The program's side ---- */

struct loop {
    nearcall_client *client;
    nearcall_function *function; /* once it was found */
    nearcall_call_id ids[CALLS_MAX];
    unsigned losses; /* that nearcall_process() has told of */
    unsigned finished; /* calls that were fetched */
    nearcall_call_id order[CALLS_MAX]; /* in which they were */
    int outcomes[CALLS_MAX]; /* of those in ids */
    char text[1024]; /* of the last */
};

/* Starts the script, and opens a handle for its server; options may be NULL. */
void loop_start(struct loop *loop, struct script *script, void (*play)(struct script *), void *argument,
                const nearcall_options *options);
void loop_end(struct loop *loop, struct script *script);

/* Begins calls from ids[from] on. */
void loop_begin(struct loop *loop, unsigned from, unsigned count, int64_t timeout_ms);

/* Fetches all that have finished. */
void loop_fetch(struct loop *loop);
void loop_turn(struct loop *loop);
void loop_until(struct loop *loop, unsigned finished);
void loop_until_lost(struct loop *loop, unsigned losses);

#endif
