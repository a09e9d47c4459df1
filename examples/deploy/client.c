/*
 * Calls without a pause until SIGTERM or a call that fails, and says what became of its calls:
 *
 *     cc client.c -lnearcall -o client && ./client unix:/run/demo/nearcall.sock
 */
#include <nearcall.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t stopping;

static void stop(int number)
{
    (void)number;
    stopping = 1;
}

/* Puts and sends the arguments once. */
static int transfer_once(nearcall_client *go, int64_t cents, int64_t *ret_process)
{
    nearcall_function *function;
    nearcall_reply reply;
    nearcall_reader reader;
    nearcall_value value;
    int status = nearcall_find(go, "transfer", strlen("transfer"), 0, &function);

    if (status == NEARCALL_OK)
        status = nearcall_request(go, function, NEARCALL_CODEC_MSGPACK);
    if (status != NEARCALL_OK)
        return status;
    nearcall_put_array(go, 3);
    nearcall_put_string(go, "alice", 5);
    nearcall_put_string(go, "bob", 3);
    nearcall_put_int(go, cents);
    status = nearcall_request_call(go, 0, &reply);
    if (status != NEARCALL_OK)
        return status;
    reader = (nearcall_reader){reply.data, reply.data + reply.bytes};
    status = nearcall_read(&reader, &value);
    if (status == NEARCALL_OK)
        *ret_process = value.as.integer;
    return status;
}

/* The next server may describe its function otherwise. It then does not run what was put
 * for the one before; the arguments above are right for both, and are put once more. */
static int transfer(nearcall_client *go, int64_t cents, int64_t *ret_process)
{
    int status = transfer_once(go, cents, ret_process);

    for (int again = 0; again < 4; again++) {
        if (status != NEARCALL_E_ABORTED || nearcall_error_outcome(go) != NEARCALL_OUTCOME_NOT_EXECUTED)
            break;
        status = transfer_once(go, cents, ret_process);
    }
    return status;
}

int main(int count, char **arguments)
{
    nearcall_client *go;
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    struct sigaction action = {.sa_handler = stop};
    int64_t calls = 0, failed = 0, server = 0, process = 0;

    /* A call may be sent five times where it was certainly not executed, all within two seconds. */
    options.attempts_max = 5;
    options.timeout_ms = 2000;
    if (count != 2 || nearcall_open(&go, arguments[1], &options) != NEARCALL_OK)
        return 1;
    sigaction(SIGTERM, &action, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (!stopping) {
        calls++;
        if (transfer(go, calls, &process) != NEARCALL_OK) {
            failed++;
            printf("failed: %s\n", nearcall_error_message(go));
            break;
        }
        if (process != server) {
            server = process;
            printf("server %lld\n", (long long)server);
        }
    }
    printf("calls %lld, failed %lld\n", (long long)calls, (long long)failed);
    nearcall_close(go);
    return 0;
}
