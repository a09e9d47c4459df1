/* What is UTF-8 and what is not. */
#include "base/utf8.h"
#include "test.h"

static const char *const valid[] = {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                    "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
                                    "\xf4\x8f\xbf\xbf", "gr\xc3\xbc\xc3\x9f"};
static const char *const invalid[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2" "a",
                                      "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xe1\x80",
                                      "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                                      "\xff", "a\xfe", "\xf0\x90\x80"};

static void clean(const char *text, const char *expected)
{
    char copy[32];
    strcpy(copy, text);
    nc_utf8_clean(copy);
    CHECK(strcmp(copy, expected) == 0);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++) {
        CHECK(nc_utf8_is_valid((const uint8_t *)valid[i], strlen(valid[i])));
        clean(valid[i], valid[i]);
    }
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
        CHECK(!nc_utf8_is_valid((const uint8_t *)invalid[i], strlen(invalid[i])));
    clean("a\xff" "b\xc3", "a?b?");
    return 0;
}
