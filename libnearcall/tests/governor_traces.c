/* The governor decides as that of the Go side does, step for step: what the simulation
 * told that one, and what it decided, lies in a file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory/governor.h"
#include "test.h"

#define NUMBERS_MAX 16

struct step {
    char what[16];
    int64_t numbers[NUMBERS_MAX]; /* told */
    int64_t decided[NUMBERS_MAX]; /* spins and yields, reason, limit, due */
    int count;
};

static int read_numbers(const char *text, int64_t *numbers)
{
    int count = 0;
    for (;;) {
        char *end;
        int64_t number = strtoll(text, &end, 10);
        if (end == text)
            return count;
        CHECK(count < NUMBERS_MAX);
        numbers[count++] = number;
        text = end;
    }
}

static void parse(char *line, struct step *step)
{
    int read = 0;
    CHECK(sscanf(line, "%15s%n", step->what, &read) == 1);
    char *decided = strchr(line, '=');
    if (decided) {
        *decided++ = 0;
        CHECK_INT(read_numbers(decided, step->decided), 4);
    }
    step->count = read_numbers(line + read, step->numbers);
}

static void look(struct nc_governor *governor, const int64_t *n)
{
    struct nc_facts facts = {.processors = n[1], .cpu = n[2], .peer_cpu = n[3],
                             .peer_awake = n[4], .machine = n[5], .runnable = n[6],
                             .thread = n[7], .waited_ns = n[8]};
    nc_governor_look(governor, n[0], &facts);
}

static void tell(struct nc_governor *governor, const struct step *step)
{
    const int64_t *n = step->numbers;
    if (strcmp(step->what, "new") == 0)
        nc_governor_start(governor, n[0], n[1]);
    else if (strcmp(step->what, "look") == 0)
        look(governor, n);
    else if (strcmp(step->what, "late") == 0)
        nc_governor_hit_late(governor, n[0], n[1]);
    else if (strcmp(step->what, "missed") == 0)
        nc_governor_missed(governor, n[0], n[1]);
    else if (strcmp(step->what, "slept") == 0)
        nc_governor_slept(governor, n[0]);
    else if (strcmp(step->what, "paused") == 0)
        nc_governor_paused(governor, n[0]);
    else if (strcmp(step->what, "together") == 0)
        CHECK_INT(nc_governor_together(governor, n[0]), n[1]);
    else if (strcmp(step->what, "turn") == 0)
        CHECK_INT(nc_governor_took_turn(governor, n[0]), n[1]);
    else
        CHECK(!"a known step");
}

static void replay(struct nc_governor *governor, char *line)
{
    struct step step = {0};
    parse(line, &step);
    if (strcmp(step.what, "hits") == 0) {
        for (int64_t i = 0; i < step.numbers[0]; i++)
            nc_governor_hit(governor);
        return;
    }
    tell(governor, &step);
    CHECK_INT(governor->spins + 2 * nc_governor_yields(governor), step.decided[0]);
    CHECK_INT(governor->reason, step.decided[1]);
    CHECK_INT(nc_governor_limit_ns(governor), step.decided[2]);
    CHECK_INT(governor->due_ns, step.decided[3]);
}

int main(void)
{
    FILE *file = fopen("../internal/transport/sharedmemory/governor/testdata/traces.txt", "re");
    struct nc_governor governor;
    char line[512];
    int lines = 0;
    CHECK(file);
    for (; fgets(line, sizeof(line), file); lines++)
        if (line[0] != '#')
            replay(&governor, line);
    CHECK(lines > 1000);
    fclose(file);
    return 0;
}
