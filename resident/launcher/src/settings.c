#include "settings.h"

#include "limits_gen.h"

#include <stdlib.h>

static int is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0';
}

int nc_setting_plain(void)
{
    return is_set("NEARCALL_NO_RESIDENT");
}

int nc_setting_debug(void)
{
    return is_set("NEARCALL_RUN_DEBUG");
}

int nc_setting_answer_ms(void)
{
    const char *digit = getenv("NEARCALL_RUN_ANSWER_MS");
    int value = 0;
    if (digit == NULL)
        return NC_RESIDENT_ANSWER_MS;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        value = value * 10 + (*digit - '0');
        if (value > NC_RESIDENT_ANSWER_MS_CEILING)
            value = NC_RESIDENT_ANSWER_MS_CEILING;
    }
    return *digit == '\0' && value > 0 ? value : NC_RESIDENT_ANSWER_MS;
}
