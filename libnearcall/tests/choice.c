/* The choice among endpoints decides as that of the Go side does, step for step: what was told to that one,
 * and what it has answered, lies in a file. */
#include <inttypes.h>

#include "choice/choice.h"
#include "test.h"

#define NUMBERS_MAX 4
#define PATH "../internal/endpoints/testdata/steps.txt"

struct step {
    char what[16];
    int64_t n[NUMBERS_MAX];
    int64_t answer[NUMBERS_MAX];
    unsigned line;
};

static void read_numbers(const char *text, int64_t *numbers)
{
    char *end;
    for (int i = 0; i < NUMBERS_MAX; i++, text = end) {
        int64_t number = strtoll(text, &end, 10);
        if (end == text)
            return;
        numbers[i] = number;
    }
}

static void parse(char *text, struct step *step)
{
    int read = 0;
    memset(step->n, 0, sizeof(step->n));
    memset(step->answer, 0, sizeof(step->answer));
    CHECK(sscanf(text, "%15s%n", step->what, &read) == 1);
    char *answer = strchr(text, '=');
    if (answer) {
        *answer++ = 0;
        read_numbers(answer, step->answer);
    }
    read_numbers(text + read, step->n);
}

static bool is(const struct step *step, const char *what)
{
    return strcmp(step->what, what) == 0;
}

/* What changes the set; false: it is a question. */
static bool tell(struct nc_choice *choice, const struct step *step)
{
    int index = (int)step->n[0];
    uint64_t random = (uint64_t)step->n[2];
    if (is(step, "new"))
        memset(choice, 0, sizeof(*choice));
    else if (is(step, "failed"))
        nc_choice_failed(choice, index, step->n[1], &random);
    else if (is(step, "silent"))
        nc_choice_silent(choice, index, step->n[1], &random);
    else if (is(step, "full"))
        nc_choice_full(choice, index, step->n[1]);
    else if (is(step, "succeeded"))
        nc_choice_succeeded(choice, index);
    else if (is(step, "remove"))
        nc_choice_remove(choice, index);
    else
        return false;
    return true;
}

static void ask(struct nc_choice *choice, const struct step *step, int64_t *answer)
{
    uint64_t random = (uint64_t)step->n[2];
    bool rests = false;
    if (is(step, "add")) {
        answer[0] = nc_choice_add(choice, (unsigned)step->n[0], step->n[1] != 0);
    } else if (is(step, "pick")) {
        answer[0] = nc_choice_pick(choice, step->n[0], &random, (nc_endpoint_bits)step->n[1], &rests);
        answer[1] = rests;
    } else if (is(step, "probe")) {
        answer[0] = nc_choice_probe(choice, step->n[0], (unsigned)step->n[1]);
    } else if (is(step, "nearest")) {
        answer[0] = nc_choice_nearest(choice, (nc_endpoint_bits)step->n[0]);
        answer[1] = nc_choice_has_others(choice, (nc_endpoint_bits)step->n[0]);
    } else {
        CHECK(is(step, "look"));
        answer[0] = nc_choice_look(choice, (int)step->n[0], step->n[1], &answer[1]);
        answer[2] = nc_choice_is_alone(choice, (int)step->n[0]);
    }
}

int main(void)
{
    struct nc_choice choice;
    struct step step = {.line = 0};
    char text[256];
    unsigned asked = 0;
    test_begin();
    FILE *file = fopen(PATH, "re");
    CHECK(file != NULL);
    while (fgets(text, sizeof(text), file)) {
        int64_t answer[NUMBERS_MAX] = {0};
        step.line++;
        parse(text, &step);
        if (tell(&choice, &step))
            continue;
        ask(&choice, &step, answer);
        asked++;
        if (memcmp(answer, step.answer, sizeof(answer)) == 0)
            continue;
        fprintf(stderr, "line %u of " PATH ": %s answers %" PRId64 " %" PRId64 " %" PRId64 "\n", step.line, step.what,
                answer[0], answer[1], answer[2]);
        CHECK(false);
    }
    CHECK(asked > 1000);
    fclose(file);
    return 0;
}
