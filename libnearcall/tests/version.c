/* The library says the version its header says. */
#include "test.h"

int main(void)
{
    char expected[32];
    snprintf(expected, sizeof(expected), "%d.%d.%d", NEARCALL_VERSION_MAJOR,
             NEARCALL_VERSION_MINOR, NEARCALL_VERSION_PATCH);
    CHECK(strcmp(nearcall_version(), expected) == 0);
    return 0;
}
