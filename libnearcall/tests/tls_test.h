/* What the tests of TLS share: certificates, and a process that ends TLS before a server. */
#ifndef TLS_TEST_H
#define TLS_TEST_H

#include "test.h"

/* The folder with the certificates; they are made when they are first asked for. */
const char *tls_folder(void);
/* A file there, in one of a few rooms that are used in turn. */
const char *tls_file(const char *name);

struct relay {
    pid_t pid;
    char address[80]; /* tls:127.0.0.1:PORT */
};

/* options as tests/programs/tls/relay has them; NULL: none. */
void relay_start(struct relay *relay, const char *target, const char *option, const char *other);
void relay_stop(struct relay *relay);

/* A server in Go that speaks TLS itself, and wants certificates of its callers. */
void tls_go_start(struct server *server);

/* A server behind a relay. */
struct tls_server {
    struct server server;
    struct relay relay;
};
void tls_server_start(struct tls_server *server);
void tls_server_stop(struct tls_server *server);

/* Trusts the authority of the folder. */
nearcall_options tls_options(uint32_t flags);
nearcall_client *tls_open(const char *address, uint32_t flags);

#endif
