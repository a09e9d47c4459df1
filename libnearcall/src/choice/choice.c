#include "choice/choice.h"

#include "base/clock.h"
#include "base/random.h"

#define REST_FIRST_NS (NC_ENDPOINT_REST_FIRST_MS * NC_NS_PER_MS)
#define REST_MOST_NS (NC_ENDPOINT_REST_MS * NC_NS_PER_MS)
#define FULL_NS (NC_ENDPOINT_FULL_MS * NC_NS_PER_MS)
#define RETURN_NS (NC_ENDPOINT_RETURN_MS * NC_NS_PER_MS)
#define NS_PER_US 1000

static bool has(nc_endpoint_bits those, int index)
{
    return those & NC_ENDPOINT_BIT(index);
}

/* From 0 to count - 1. */
static unsigned draw(uint64_t *random, unsigned count)
{
    return (unsigned)(nc_random(random) % count);
}

/* ---- Members ---- */

int nc_choice_add(struct nc_choice *choice, unsigned group, bool beside)
{
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        struct nc_choice_member *member = &choice->members[i];
        if (member->present)
            continue;
        *member = (struct nc_choice_member){.present = true, .beside = beside, .group = group};
        return i;
    }
    return NC_CHOICE_NONE;
}

void nc_choice_remove(struct nc_choice *choice, int index)
{
    choice->members[index] = (struct nc_choice_member){0};
}

bool nc_choice_is_alone(const struct nc_choice *choice, int index)
{
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        if (choice->members[i].present && i != index && choice->members[i].group <= choice->members[index].group)
            return false;
    return true;
}

bool nc_choice_has_others(const struct nc_choice *choice, nc_endpoint_bits those)
{
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        if (choice->members[i].present && !has(those, i))
            return true;
    return false;
}

int nc_choice_nearest(const struct nc_choice *choice, nc_endpoint_bits those)
{
    int nearest = NC_CHOICE_NONE;
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        const struct nc_choice_member *member = &choice->members[i];
        if (member->present && has(those, i) &&
            (nearest == NC_CHOICE_NONE || member->group < choice->members[nearest].group))
            nearest = i;
    }
    return nearest;
}

static bool has_failed(const struct nc_choice_member *member)
{
    return member->state == NC_ENDPOINT_FAILED || member->state == NC_ENDPOINT_SILENT;
}

static bool is_probed(const struct nc_choice_member *member)
{
    return member->beside || member->state == NC_ENDPOINT_SILENT;
}

/* After a rest one call finds out whether it is back: see lease(). */
static bool is_usable(const struct nc_choice_member *member, int64_t now_ns)
{
    if (!member->present || now_ns < member->until_ns)
        return false;
    return !has_failed(member) || !is_probed(member);
}

/* It rests for as long as before, while one call or probe finds out whether it is back. If that never says
 * what it has found, the next one tries after that time. */
static void lease(struct nc_choice_member *member, int64_t now_ns)
{
    if (has_failed(member))
        member->until_ns = now_ns + member->length_ns;
}

/* ---- Choosing ---- */

/* How many of the nearest group that has any may be used. */
static unsigned count_usable(const struct nc_choice *choice, int64_t now_ns, nc_endpoint_bits not, unsigned *ret_group)
{
    unsigned count = 0;
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        const struct nc_choice_member *member = &choice->members[i];
        if (has(not, i) || !is_usable(member, now_ns) || (count > 0 && member->group > *ret_group))
            continue;
        count = count > 0 && member->group == *ret_group ? count + 1 : 1;
        *ret_group = member->group;
    }
    return count;
}

static int nth_usable(const struct nc_choice *choice, int64_t now_ns, nc_endpoint_bits not, unsigned group, unsigned nth)
{
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        const struct nc_choice_member *member = &choice->members[i];
        if (member->group == group && !has(not, i) && is_usable(member, now_ns) && nth-- == 0)
            return i;
    }
    return NC_CHOICE_NONE;
}

/* The nearest of those whose rests end first. */
static int first_to_return(const struct nc_choice *choice, nc_endpoint_bits not)
{
    int first = NC_CHOICE_NONE;
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        const struct nc_choice_member *member = &choice->members[i];
        const struct nc_choice_member *best = first == NC_CHOICE_NONE ? NULL : &choice->members[first];
        if (!member->present || has(not, i))
            continue;
        if (!best || member->until_ns < best->until_ns ||
            (member->until_ns == best->until_ns && member->group < best->group))
            first = i;
    }
    return first;
}

int nc_choice_pick(struct nc_choice *choice, int64_t now_ns, uint64_t *random, nc_endpoint_bits not, bool *ret_rests)
{
    unsigned group = 0, count = count_usable(choice, now_ns, not, &group);
    *ret_rests = false;
    if (count == 0) {
        int first = first_to_return(choice, not);
        *ret_rests = first != NC_CHOICE_NONE;
        return first;
    }
    int index = nth_usable(choice, now_ns, not, group, draw(random, count));
    lease(&choice->members[index], now_ns);
    return index;
}

int nc_choice_probe(struct nc_choice *choice, int64_t now_ns, unsigned group)
{
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++) {
        struct nc_choice_member *member = &choice->members[i];
        if (!member->present || member->group > group || !has_failed(member) || !is_probed(member) ||
            now_ns < member->until_ns)
            continue;
        lease(member, now_ns);
        return i;
    }
    return NC_CHOICE_NONE;
}

/* ---- What became of calls and connections ---- */

/* Whether calls may have gone elsewhere because of this one, without going to a nearer one. */
static bool has_stand_in(const struct nc_choice *choice, int index)
{
    for (int i = 0; i < NC_ADDRESS_ENDPOINTS_MAX; i++)
        if (choice->members[i].present && i != index && choice->members[i].group >= choice->members[index].group)
            return true;
    return false;
}

static int64_t mean_rest_ns(unsigned failures)
{
    int64_t mean_ns = REST_FIRST_NS;
    for (unsigned i = 0; i < failures && mean_ns < REST_MOST_NS; i++)
        mean_ns *= 2;
    return nc_earlier(mean_ns, REST_MOST_NS);
}

static void fail(struct nc_choice *choice, int index, enum nc_endpoint_state state, int64_t now_ns, uint64_t *random)
{
    struct nc_choice_member *member = &choice->members[index];
    if (!member->present)
        return;
    int64_t mean_ns = mean_rest_ns(member->failures);
    int64_t length_ns = mean_ns / 2 + NS_PER_US * (int64_t)draw(random, (unsigned)(mean_ns / NS_PER_US) + 1);
    if (has_stand_in(choice, index))
        length_ns = nc_earlier(length_ns, RETURN_NS);
    member->state = state;
    member->length_ns = length_ns;
    member->until_ns = now_ns + length_ns;
    member->failures++;
}

void nc_choice_failed(struct nc_choice *choice, int index, int64_t now_ns, uint64_t *random)
{
    fail(choice, index, NC_ENDPOINT_FAILED, now_ns, random);
}

void nc_choice_silent(struct nc_choice *choice, int index, int64_t now_ns, uint64_t *random)
{
    fail(choice, index, NC_ENDPOINT_SILENT, now_ns, random);
}

void nc_choice_succeeded(struct nc_choice *choice, int index)
{
    struct nc_choice_member *member = &choice->members[index];
    if (!has_failed(member))
        return;
    member->state = NC_ENDPOINT_READY;
    member->failures = 0;
    member->until_ns = 0;
}

void nc_choice_full(struct nc_choice *choice, int index, int64_t now_ns)
{
    struct nc_choice_member *member = &choice->members[index];
    if (!member->present || has_failed(member))
        return;
    member->state = NC_ENDPOINT_FULL;
    member->until_ns = now_ns + FULL_NS;
}

enum nc_endpoint_state nc_choice_look(const struct nc_choice *choice, int index, int64_t now_ns, int64_t *ret_rests_ns)
{
    const struct nc_choice_member *member = &choice->members[index];
    *ret_rests_ns = now_ns < member->until_ns ? member->until_ns - now_ns : 0;
    return member->state == NC_ENDPOINT_FULL && *ret_rests_ns == 0 ? NC_ENDPOINT_READY : member->state;
}
