/* MEMORY, by which shared memory begins. */
#include "memory/memory.h"
#include "memory/spin.h"
#include "receive/frames.h"
#include "receive/receive.h"

static enum nc_spin spin_mode(const nearcall_client *client)
{
    if (client->options.flags & NEARCALL_SPIN_OFF || client->address.spin == NC_SPIN_OFF)
        return NC_SPIN_OFF;
    if (client->options.flags & NEARCALL_SPIN_DEDICATED)
        return NC_SPIN_DEDICATED;
    return client->address.spin;
}

int nc_on_memory(nearcall_client *client, const struct nc_frame *frame, const uint8_t *payload,
                 size_t bytes, struct nc_fault *fault)
{
    struct nc_connection *connection = &client->connection;
    const struct nc_arrival *came = &connection->descriptors.frame; /* closed afterwards */
    struct nc_memory *memory = &connection->memory;
    struct nc_memory_offer offer;
    (void)frame;
    (void)bytes;
    if (connection->memory_came) {
        *fault = (struct nc_fault){-NEARCALL_E_INVALID_ARGUMENT, "MEMORY", "number", 2, "1"};
        return -1;
    }
    connection->memory_came = true;
    nc_agree_on_descriptors(client);
    nc_memory_offer_decode(&offer, payload);
    if (came->count == NC_MEMORY_DESCRIPTORS && !memory->server &&
        nc_memory_attach(memory, &offer, came->fds[0], came->fds[1]) == 0) {
        memory->first_id = client->last_id + 1;
        connection->looked_ns = client->now_ns;
        nc_spinning_start(&connection->spinning, spin_mode(client), offer.spin_us);
        nc_log(client, NEARCALL_LOG_DEBUG, "calls to %s may use shared memory now: %u slots, %u bytes for larger ones",
               client->address_text, offer.slots, offer.arena_bytes);
    } else {
        nc_log(client, NEARCALL_LOG_WARNING,
               "%s offered shared memory that could not be had; calls go over the socket",
               client->address_text);
    }
    return 0;
}
