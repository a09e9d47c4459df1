/* A program without a dynamic loader is told that it cannot load a library. */
#include <stdio.h>
#include <string.h>

#include "nearcall.h"

int main(int count, char **arguments)
{
    char address[1024];
    nearcall_client *client = NULL;

    snprintf(address, sizeof(address), "embed:%s", count > 1 ? arguments[1] : "");
    int r = nearcall_open(&client, address, NULL);
    const char *message = client ? nearcall_error_message(client) : "";
    int told = r == NEARCALL_E_FAILED_PRECONDITION && strstr(message, "linked with -static") != NULL;
    if (!told)
        fprintf(stderr, "static: opening returned %d: %s\n", r, message);
    nearcall_close(client);
    return told ? 0 : 1;
}
