/* A server that plays a script: a function of the test that runs in a thread of
 * its own and says byte for byte what goes over the wire. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <pthread.h>
#include <semaphore.h>

#include "test.h"
#include "wire/wire.h"

#define SCRIPT_FUNCTION_ID 7
#define SCRIPT_PAYLOAD_MAX 65536

struct script {
    void (*play)(struct script *script);
    char address[160];
    int listener;
    int fd; /* of the caller that was accepted last, or -1 */
    pthread_t thread;
    sem_t signals; /* from the test to the script */
    uint64_t schema_hash;
    uint64_t value_bytes_max; /* in stores; 0: the welcome says nothing of it */
    uint64_t features;
    uint64_t server_instance;
    uint8_t key; /* what the key of each connection consists of; 0: it has none */
    uint32_t calls_in_flight_max;
    int64_t clock_ahead_ns; /* of its clock, as in another time namespace */
    void *argument;
};

void script_start(struct script *script, void (*play)(struct script *), void *argument);
void script_start_tcp(struct script *script, void (*play)(struct script *), void *argument);
void script_start_again(struct script *script); /* one that has ended, at the same address */
void script_end(struct script *script); /* waits for the script and closes all */

/* From the test: lets the script go on. From the script: waits for that. */
void script_signal(struct script *script);
void script_await(struct script *script);

void script_accept(struct script *script);
void script_read_hello(struct script *script);
void script_welcome(struct script *script);
void script_greet(struct script *script); /* the three in a row */
/* Accepts, and refuses the connection. */
void script_refuse(struct script *script, uint16_t code, const char *reason);

/* Reads one frame; its body goes to payload and is at most SCRIPT_PAYLOAD_MAX. */
void script_read(struct script *script, struct nc_frame *frame, uint8_t *payload);
/* The same, false at the end of the stream. */
bool script_try_read(struct script *script, struct nc_frame *frame, uint8_t *payload);
/* Reads one frame of this type. */
void script_expect(struct script *script, enum nc_frame_type type, struct nc_frame *frame);
/* A request of any size, whose body has this one byte all over. */
void script_expect_filled(struct script *script, struct nc_frame *frame, uint8_t byte);
/* Waits until the caller has closed; true if it sent nothing before. */
bool script_read_end(struct script *script);

void script_send(struct script *script, const void *data, size_t bytes);
void script_send_frame(struct script *script, const struct nc_frame *frame, const void *payload);
/* The bytes with these descriptors, in one message. */
void script_send_descriptors(struct script *script, const void *data, size_t bytes, const int *fds, unsigned count);
/* The bytes with as many descriptors of /dev/null, in one message. */
void script_send_files(struct script *script, const void *data, size_t bytes, unsigned count);
void script_reply(struct script *script, const struct nc_frame *request, const void *data,
                  size_t bytes);
void script_error(struct script *script, uint64_t call_id, int code, int outcome,
                  const char *message);
void script_drain(struct script *script, uint64_t last_id);
void script_hang_up(struct script *script);

/* Answers whatever comes until the caller closes: requests by an echo, RESOLVE by
 * a description, PING by PONG. */
void script_serve(struct script *script);

#endif
