/* Hosts are compared as conformance/hosts.tsv says. */
#include <stdio.h>
#include <string.h>

#include "handoff_test.h"

static void compare(char *line)
{
    char *pattern = strchr(line, '\t');
    *pattern++ = '\0';
    char *verdict = strchr(pattern, '\t');
    *verdict++ = '\0';
    int wanted = strcmp(verdict, "yes\n") == 0;
    if (nearcall_handoff_host_matches(line, pattern) != wanted)
        fprintf(stderr, "host \"%s\", pattern \"%s\"\n", line, pattern);
    CHECK_INT(nearcall_handoff_host_matches(line, pattern), wanted);
}

int main(void)
{
    char line[200];
    int rows = 0;
    test_begin();
    FILE *file = fopen("../conformance/hosts.tsv", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (line[0] == '#')
            continue;
        compare(line);
        rows++;
    }
    fclose(file);
    CHECK(rows >= 15);
    return 0;
}
