/* Entries: functions by name, found and called on whatever channel is free. */
#include "core.h"

#include <string.h>

/* ---- Entries ---- */

core_entry *core_entry_new(PyObject *name)
{
    core_entry *entry;
    Py_ssize_t bytes;
    const char *text;

    text = PyUnicode_AsUTF8AndSize(name, &bytes);
    if (text == NULL)
        return NULL;
    entry = PyMem_Calloc(1, sizeof(*entry));
    if (entry == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    entry->references = 1;
    entry->name = Py_NewRef(name);
    entry->text = text;
    entry->text_bytes = bytes;
    return entry;
}

core_entry *core_entry_keep(core_entry *entry)
{
    entry->references++;
    return entry;
}

static void drop_slot(core_slot *slot)
{
    if (slot != NULL)
        core_slot_clear(slot);
    PyMem_Free(slot);
}

void core_entry_drop(core_entry *entry)
{
    Py_ssize_t i;

    if (entry == NULL || --entry->references > 0)
        return;
    for (i = 0; i < entry->slot_count; i++)
        drop_slot(entry->slots[i]);
    PyMem_Free(entry->slots);
    Py_XDECREF(entry->hash);
    Py_XDECREF(entry->description);
    Py_DECREF(entry->name);
    PyMem_Free(entry);
}

static void drop_capsule(PyObject *capsule)
{
    core_entry_drop(PyCapsule_GetPointer(capsule, NULL));
}

core_entry *core_entry_lookup(PyObject *entries, PyObject *name)
{
    PyObject *capsule = PyDict_GetItemWithError(entries, name);

    return capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
}

int core_entry_store(PyObject *entries, core_entry *entry)
{
    PyObject *capsule;
    int r;

    if (core_entry_lookup(entries, entry->name) != NULL)
        return 0;
    capsule = PyErr_Occurred() ? NULL : PyCapsule_New(entry, NULL, drop_capsule);
    if (capsule == NULL)
        return -1;
    core_entry_keep(entry);
    r = PyDict_SetItem(entries, entry->name, capsule);
    Py_DECREF(capsule);
    return r;
}

/* ---- Slots: what each channel knows ---- */

int core_slot_refresh(core_state *state, core_slot *slot, nearcall_function *function)
{
    uint32_t revision = nearcall_function_revision(function);
    const uint8_t *schema;
    core_plan *plan;
    size_t bytes;

    slot->function = function;
    if (slot->plan != NULL && slot->revision == revision && revision != 0)
        return 0;
    schema = nearcall_function_schema(function, &bytes);
    plan = core_plan_new(state, schema, bytes);
    if (plan == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        core_raise_from_current(state, NEARCALL_E_INTERNAL, NEARCALL_OUTCOME_NOT_EXECUTED,
                                "the server's description of a function cannot be read");
        return -1;
    }
    core_plan_drop(slot->plan);
    slot->plan = plan;
    slot->revision = revision;
    return 0;
}

void core_slot_clear(core_slot *slot)
{
    core_plan_drop(slot->plan);
    slot->plan = NULL;
    slot->function = NULL;
}

static int make_room(core_entry *entry, Py_ssize_t count)
{
    core_slot **slots;

    if (count <= entry->slot_count)
        return 0;
    slots = PyMem_Realloc(entry->slots, (size_t)count * sizeof(*slots));
    if (slots == NULL)
        return -1;
    memset(slots + entry->slot_count, 0, (size_t)(count - entry->slot_count) * sizeof(*slots));
    entry->slots = slots;
    entry->slot_count = count;
    return 0;
}

/* It is used while code of Python's runs, and so while other threads make others. */
static core_slot *slot_at(core_entry *entry, Py_ssize_t index)
{
    if (make_room(entry, index + 1) == 0 && entry->slots[index] == NULL)
        entry->slots[index] = PyMem_Calloc(1, sizeof(core_slot));
    if (index < entry->slot_count && entry->slots[index] != NULL)
        return entry->slots[index];
    PyErr_NoMemory();
    return NULL;
}

static nearcall_function *find(core_client *client, core_entry *entry, core_channel *channel,
                               int64_t *timeout_ms)
{
    int64_t started_ms = core_monotonic_ms();
    nearcall_function *found;
    int r;

    /* It answers at once what it knows of the server it is connected to. */
    r = core_wait_find(channel, entry->text, (size_t)entry->text_bytes, *timeout_ms, &found);
    if (r != NEARCALL_OK) {
        if (r != CORE_RAISED)
            core_raise(client->state, channel->handle, r);
        return NULL;
    }
    *timeout_ms = core_milliseconds_left(*timeout_ms, started_ms);
    return core_pool_warn_of_plain(client->pool, channel) < 0 ? NULL : found;
}

int core_entry_set_slot(core_state *state, core_entry *entry, const core_channel *channel,
                        nearcall_function *function)
{
    core_slot *slot = slot_at(entry, channel->index);

    return slot == NULL ? -1 : core_slot_refresh(state, slot, function);
}

/* What the channel knows of a function that it has called before, unless a server has refused it since; NULL. */
static core_slot *known_slot(const core_entry *entry, const core_channel *channel)
{
    core_slot *slot = channel->index < entry->slot_count ? entry->slots[channel->index] : NULL;
    uint32_t revision = slot == NULL ? 0 : nearcall_function_revision(slot->function);

    return revision != 0 && slot->plan != NULL && slot->revision == revision ? slot : NULL;
}

core_slot *core_entry_slot(core_client *client, core_entry *entry, core_channel *channel,
                           int look_again, int64_t *timeout_ms)
{
    core_slot *slot = look_again ? NULL : known_slot(entry, channel);
    nearcall_function *found;

    if (slot != NULL)
        return slot;
    slot = slot_at(entry, channel->index);
    if (slot == NULL)
        return NULL;
    found = slot->function;
    if (found == NULL || look_again || nearcall_function_revision(found) == 0) {
        found = find(client, entry, channel, timeout_ms);
        /* Only names that exist are kept: a program may try any number of others. */
        if (found == NULL || (entry->hash == NULL && core_entry_store(client->entries, entry) < 0))
            return NULL;
    }
    return core_slot_refresh(client->state, slot, found) < 0 ? NULL : slot;
}

/* ---- Calling ---- */

PyObject *core_entry_call(core_client *client, core_entry *entry, const core_arguments *arguments)
{
    nearcall_reply reply;
    core_attempt attempt = {.reply = &reply, .attempts_left = core_client_attempts(client)};
    PyObject *result = NULL;
    core_bounds bounds;

    if (core_timeout_ms(client->state, arguments->timeout, client->timeout_ms, &bounds.timeout_ms) < 0)
        return NULL;
    bounds.channel = core_channel_take(client->pool, 0);
    if (bounds.channel == NULL)
        return NULL;
    if (core_entry_attempt(client, entry, bounds.channel, arguments, bounds.timeout_ms, &attempt) == 0) {
        bounds.started_ms = attempt.started_ms;
        result = core_decode_reply(client->state, bounds.channel->handle, client->view, attempt.plan,
                                   &reply, &bounds);
        core_plan_drop(attempt.plan);
    }
    core_channel_release(client->pool, bounds.channel);
    return result;
}
