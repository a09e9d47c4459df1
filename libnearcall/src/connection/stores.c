#include "connection/stores.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "connection/connection.h"
#include "connection/output.h"
#include "transport/files.h"
#include "transport/transport.h"

#define HUGE_PAGE_BYTES ((uintptr_t)2 << 20)
#define IDLE_NS (NC_STORE_IDLE_MS * NC_NS_PER_MS)
/* It stands for users of other namespaces, and is nobody. */
#define OVERFLOW_USER 65534

void nc_stores_init(struct nc_stores *stores)
{
    memset(stores, 0, sizeof(*stores));
    for (unsigned place = 0; place < NC_STORE_PLACES; place++)
        nc_store_init(&stores->held[place]);
}

/* What a server of this user changes while it is read, it might as well have sent. */
static bool is_trusted(const nearcall_client *client)
{
    const struct nc_connection *connection = &client->connection;
    uid_t user, owner;
    bool has_owner;
    return connection->transport->server_user &&
           connection->transport->server_user(&client->address, connection->fd, &user, &has_owner, &owner) == 0 &&
           user == geteuid() && user != OVERFLOW_USER;
}

void nc_stores_agree(nearcall_client *client)
{
    struct nc_stores *stores = &client->connection.stores;
    if (!nc_stores_are_agreed(client))
        return;
    stores->value_bytes_max = (size_t)client->connection.welcome.value_bytes_max;
    stores->trusted = is_trusted(client);
}

bool nc_stores_take(const nearcall_client *client, const struct nc_call *call)
{
    return call->type == NC_REQUEST && !call->files && call->payload_bytes <= client->options.value_bytes_max &&
           call->payload_bytes <= client->connection.stores.value_bytes_max;
}

/* ---- Replies that name one ---- */

static int refuse(struct nc_fault *fault, const char *field, uint64_t value, const char *allowed)
{
    *fault = (struct nc_fault){-NEARCALL_E_INVALID_ARGUMENT, "REPLY", field, value, allowed};
    return -1;
}

/* The store that came takes the place of the one that was there. */
static const char *attach(nearcall_client *client, uint32_t place)
{
    struct nc_stores *stores = &client->connection.stores;
    struct nc_arrival *came = &client->connection.descriptors.frame;
    const char *what = "the descriptor of a store did not arrive: this process has too many open files, see ulimit -n";
    nc_store_close(&stores->held[place]);
    if (came->count != NC_STORE_DESCRIPTORS ||
        nc_store_attach(&stores->held[place], came->fds[0], place < NC_STORES_PER_DIRECTION, stores->trusted, &what) < 0)
        return what; /* and what came is closed behind the frame */
    came->count = 0;
    return NULL;
}

/* Why the store cannot be used that the frame names; NULL: it can. */
static const char *judge(nearcall_client *client, const struct nc_frame *frame, const struct nc_stored *stored)
{
    struct nc_stores *stores = &client->connection.stores;
    struct nc_store *store = &stores->held[stored->place];
    const char *what = frame->descriptors ? attach(client, stored->place) : NULL;
    if (what)
        return what;
    if (!nc_store_is_there(store)) { /* the program has closed it */
        nc_store_close(store);
        stores->came.is_missing = !frame->descriptors;
        return "the server has sent no store";
    }
    return stored->bytes > store->room ? "the server says that more lies in a store than that has room for" : NULL;
}

static bool find_extension(const uint8_t *extensions, size_t bytes, struct nc_extension *ret_extension)
{
    size_t offset = 0;
    while (nc_extension_next(extensions, bytes, &offset, ret_extension))
        if (ret_extension->type == NC_EXTENSION_STORED)
            return true;
    return false;
}

int nc_stores_find(nearcall_client *client, const struct nc_frame *frame, const uint8_t *body, struct nc_fault *fault)
{
    struct nc_stores *stores = &client->connection.stores;
    struct nc_extension extension;
    struct nc_stored stored;
    bool files_agreed = client->connection.welcome.features & NC_FEATURE_DESCRIPTORS;
    if (!find_extension(body, frame->extension_bytes, &extension))
        return frame->descriptors && !files_agreed ? refuse(fault, "fds", frame->descriptors, "0 without a store") : 0;
    if (!nc_stored_decode(&stored, &extension))
        return refuse(fault, "extension 0x8002's bytes", extension.bytes, "16, that name a place that there is, a serial and at most value_bytes_max");
    if (frame->length != frame->extension_bytes)
        return refuse(fault, "payload bytes", frame->length - frame->extension_bytes, "0 beside a store");
    if (frame->descriptors > NC_STORE_DESCRIPTORS)
        return refuse(fault, "fds", frame->descriptors, "at most 1 beside a store");
    stores->came.named = true;
    stores->came.is_missing = false;
    stores->came.stored = stored;
    stores->came.what = judge(client, frame, &stored);
    return 0;
}

/* ---- Giving back ---- */

/* A connection that drains or was lost is not told: the server takes its stores back by itself. */
void nc_stores_release(nearcall_client *client, const struct nc_stored *stored)
{
    struct nc_stores *stores = &client->connection.stores;
    uint8_t bytes[NC_FRAME_HEADER_BYTES + NC_RELEASE_BYTES];
    struct nc_frame frame = {.type = NC_RELEASE, .length = NC_RELEASE_BYTES};
    if (!nc_connection_usable(client))
        return;
    nc_frame_encode(bytes, &frame);
    nc_release_encode(bytes + NC_FRAME_HEADER_BYTES, stored, stores->held[stored->place].fd < 0);
    if (nc_output_append(client, bytes, sizeof(bytes)))
        stores->has_work = true;
    else
        nc_log(client, NEARCALL_LOG_WARNING, "no memory to give a store back to %s, which may end the connection for it",
               client->address_text);
}

/* How many bytes of RELEASEs of stores that were named to nobody the server has not been sent. Some that it was sent
 * are counted, too, for as long as some of what was in the output behind them is still there. The program's own
 * requests are not, however many wait: a server may take its time to read them. */
static size_t bytes_unread(struct nc_connection *connection)
{
    struct nc_stores *stores = &connection->stores;
    if (nc_output_bytes(connection) == 0) {
        stores->told_before_bytes = stores->told_since_bytes = 0;
    } else if (connection->written >= stores->told_until) {
        stores->told_before_bytes = stores->told_since_bytes;
        stores->told_since_bytes = 0;
        stores->told_until = connection->written + nc_output_bytes(connection);
    }
    return stores->told_before_bytes + stores->told_since_bytes;
}

int nc_stores_end_reply(nearcall_client *client, bool is_awaited, struct nc_fault *fault)
{
    struct nc_stores *stores = &client->connection.stores;
    if (!stores->came.named)
        return 0;
    stores->came.named = false;
    if (!is_awaited) {
        size_t unread = bytes_unread(&client->connection);
        if (unread >= NC_PENDING_OUTPUT_BYTES_MAX)
            return refuse(fault, "stores named to nobody, bytes of RELEASE that wait", unread, "fewer, as RELEASE is read");
        stores->told_since_bytes += NC_FRAME_HEADER_BYTES + NC_RELEASE_BYTES;
    }
    nc_stores_release(client, &stores->came.stored);
    return 0;
}

/* ---- What is kept for the next call ---- */

static void look_again(struct nc_stores *stores, int64_t at_ns)
{
    if (stores->idle_ns == 0 || at_ns < stores->idle_ns)
        stores->idle_ns = at_ns;
}

void nc_stores_used(nearcall_client *client, uint32_t place)
{
    struct nc_stores *stores = &client->connection.stores;
    stores->used_ns[place] = client->now_ns;
    look_again(stores, client->now_ns + IDLE_NS);
}

/* Fewer and larger pages take a fraction of the time to be had, if there are such. */
static void advise(const struct nc_buffer *buffer)
{
    uintptr_t from = ((uintptr_t)buffer->data + HUGE_PAGE_BYTES - 1) & ~(uintptr_t)(HUGE_PAGE_BYTES - 1);
    uintptr_t to = ((uintptr_t)buffer->data + buffer->capacity) & ~(uintptr_t)(HUGE_PAGE_BYTES - 1);
    if (buffer->capacity >= 2 * HUGE_PAGE_BYTES)
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

int nc_stores_reserve(nearcall_client *client, struct nc_buffer *buffer, size_t bytes)
{
    nc_buffer_empty(buffer);
    if (buffer->capacity < client->spare.capacity)
        nc_buffer_swap(buffer, &client->spare);
    nc_buffer_free(&client->spare);
    if (buffer->capacity >= bytes)
        return NEARCALL_OK;
    nc_buffer_free(buffer); /* what is too small is no help, and need not be copied */
    int r = nc_buffer_reserve(buffer, bytes);
    if (r == NEARCALL_OK)
        advise(buffer);
    return r;
}

void nc_stores_keep_lent(nearcall_client *client)
{
    if (!nc_stores_are_agreed(client))
        return;
    client->lent.start = client->lent.end = 0;
    nc_buffer_swap(&client->lent, &client->spare);
    client->spare_ns = nc_coarse_now_ns();
    look_again(&client->connection.stores, client->spare_ns + IDLE_NS);
}

void nc_stores_expire(nearcall_client *client)
{
    struct nc_stores *stores = &client->connection.stores;
    stores->idle_ns = 0;
    if (client->now_ns - client->spare_ns >= IDLE_NS)
        nc_buffer_free(&client->spare);
    else if (client->spare.capacity)
        look_again(stores, client->spare_ns + IDLE_NS);
    for (unsigned place = 0; place < NC_STORES_PER_DIRECTION; place++) {
        struct nc_store *store = &stores->held[place];
        if (store->fd < 0)
            continue;
        if (client->now_ns - stores->used_ns[place] >= IDLE_NS)
            nc_store_close(store);
        else
            look_again(stores, stores->used_ns[place] + IDLE_NS);
    }
}

/* ---- The end ---- */

void nc_stores_close(struct nc_stores *stores)
{
    for (unsigned place = 0; place < NC_STORE_PLACES; place++)
        nc_store_close(&stores->held[place]);
    nc_stores_init(stores);
}

void nc_stores_orphan(struct nc_stores *stores)
{
    for (unsigned place = 0; place < NC_STORE_PLACES; place++)
        nc_store_orphan(&stores->held[place]);
    nc_stores_init(stores);
}
