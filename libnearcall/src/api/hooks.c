/* What the program is told by calling it. */
#include "api/api.h"

NEARCALL_API int nearcall_on_finished(nearcall_client *client,
                                      void (*finished)(void *argument, nearcall_call_id call),
                                      void *argument)
{
    int r = nc_enter_without_library(client);
    if (r < 0)
        return r;
    client->hooks.finished = finished;
    client->hooks.finished_argument = argument;
    if (finished && client->calls.finished.untold)
        client->calls.unreported = true; /* what has finished before is news to the hook */
    return nc_leave(client, NEARCALL_OK);
}

NEARCALL_API int nearcall_on_log(nearcall_client *client,
                                 void (*log)(void *argument, int level, const char *text),
                                 void *argument)
{
    int r = nc_enter_without_library(client);
    if (r < 0)
        return r;
    client->hooks.log = log;
    client->hooks.log_argument = argument;
    return nc_leave(client, NEARCALL_OK);
}

/* False: nobody is to be told any more, or this is a child whose calls have not ended yet. */
static bool goes_on(const nearcall_client *client)
{
    return client->hooks.finished && !client->hooks.closed && !nc_forked(&client->guard);
}

/* The next call to tell of; 0: there is none. A handler of a signal may fetch calls, so it must not come
 * in between. */
static nearcall_call_id take_untold(nearcall_client *client)
{
    struct nc_queue *finished = &client->calls.finished;
    nearcall_call_id id = 0;
    nc_become_busy(client);
    if (finished->untold) {
        id = finished->untold->id;
        finished->untold = finished->untold->queue_next;
    }
    nc_become_idle(client);
    return id;
}

static void tell_all(nearcall_client *client)
{
    const struct nc_queue *finished = &client->calls.finished;
    /* Calls that finish meanwhile count as well, but not for ever. */
    for (unsigned left = finished->count; left > 0 && goes_on(client); left--) {
        nearcall_call_id id = take_untold(client);
        if (id == 0)
            break;
        client->hooks.finished(client->hooks.finished_argument, id);
    }
    if (finished->untold)
        client->calls.unreported = true;
}

int nc_tell_finished(nearcall_client *client, int r)
{
    if (client->hooks.telling)
        return r;
    client->hooks.telling = true;
    tell_all(client);
    client->hooks.telling = false;
    if (client->hooks.closed) {
        nearcall_close(client);
        return 0;
    }
    return r < 0 ? r : (int)client->calls.finished.count;
}
