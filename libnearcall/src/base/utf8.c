#include "base/utf8.h"

#include <string.h>

/* The smallest number that needs as many bytes: less is an overlong form. */
static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};

static size_t length_of(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xC2 && first < 0xE0)
        return 2;
    if (first >= 0xE0 && first < 0xF0)
        return 3;
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/* Bytes of the character at text, 0 when there is none. */
static size_t character(const uint8_t *text, size_t bytes)
{
    size_t length = length_of(text[0]);
    if (length <= 1 || length > bytes)
        return length == 1 ? 1 : 0;
    uint32_t number = text[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        number = number << 6 | (text[i] & 0x3F);
    }
    bool is_surrogate = number >= 0xD800 && number <= 0xDFFF;
    return number < smallest[length] || number > 0x10FFFF || is_surrogate ? 0 : length;
}

bool nc_utf8_is_valid(const uint8_t *text, size_t bytes)
{
    while (bytes > 0) {
        size_t length = character(text, bytes);
        if (length == 0)
            return false;
        text += length;
        bytes -= length;
    }
    return true;
}

void nc_utf8_clean(char *text)
{
    size_t bytes = strlen(text);
    while (bytes > 0) {
        size_t length = character((const uint8_t *)text, bytes);
        if (length == 0) {
            *text = '?';
            length = 1;
        }
        text += length;
        bytes -= length;
    }
}
