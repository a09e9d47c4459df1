/* What single calls have beside others: options, and metadata of their replies. */
#include "calls/calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "transport/files.h"

void nc_call_use_view(nearcall_client *client, struct nc_call *call)
{
    call->has_more = true;
    call->view = nc_view_hold(client->view);
    if (call->type == NC_REQUEST && !nc_view_fits(call->view, call->function))
        nc_call_finish(client, call, -NEARCALL_E_RESOURCE_EXHAUSTED, NEARCALL_OUTCOME_NOT_EXECUTED,
                       "the metadata take more than " NC_TEXT(NC_EXTENSION_BYTES_MAX) " bytes with the "
                       "function's name (limit extension_bytes_max, which is fixed)");
}

bool nc_metadata_keep(struct nc_metadata **metadata, const uint8_t *extensions, size_t bytes)
{
    nc_metadata_free(metadata);
    *metadata = malloc(sizeof(**metadata) + bytes);
    if (!*metadata)
        return false;
    (*metadata)->bytes = bytes;
    memcpy((*metadata)->extensions, extensions, bytes);
    return true;
}

void nc_metadata_free(struct nc_metadata **metadata)
{
    struct nc_metadata *kept = *metadata;
    *metadata = NULL;
    free(kept);
}

void nc_call_let_go(struct nc_call *call)
{
    nc_files_release(&call->files);
    nc_files_release(&call->reply_files);
    nc_view_release(&call->view);
    nc_metadata_free(&call->metadata);
    free(call->storing);
    call->storing = NULL;
    call->has_more = false; /* last: a fork may come between */
}
