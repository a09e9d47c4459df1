#include "reason.h"

#include "text.h"

#include <string.h>

int nc_because(struct reason *reason, const char *what, int error)
{
    /* A reason that is cut short is still one. */
    nc_join(reason->text, sizeof(reason->text), what, error ? ": " : "", error ? strerror(error) : "");
    return -1;
}
