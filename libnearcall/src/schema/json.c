/* A schema document, which travels as JSON, as the MessagePack that everything else here reads. Nesting
 * is bounded, and no number is read by a function that depends on the locale. */
#include <string.h>

#include "base/limits_gen.h"
#include "schema/schema.h"

#define ARRAY_HEAD 0xDD
#define MAP_HEAD 0xDF
#define LENGTH_BYTES 4
#define LEVELS (NC_NESTING_DEPTH_MAX + 4)

struct json {
    const uint8_t *next;
    const uint8_t *end;
    struct nc_buffer *to;
    unsigned depth;
    bool no_memory;
};

static bool put(struct json *j, const void *data, size_t bytes)
{
    j->no_memory = nc_buffer_append(j->to, data, bytes) < 0;
    return !j->no_memory;
}

static bool put_byte(struct json *j, unsigned byte)
{
    uint8_t one = (uint8_t)byte;
    return put(j, &one, 1);
}

/* A head whose length is not known yet. */
static bool put_open(struct json *j, unsigned head, size_t *ret_at)
{
    static const uint8_t unknown[LENGTH_BYTES];
    *ret_at = j->to->end + 1;
    return put_byte(j, head) && put(j, unknown, LENGTH_BYTES);
}

static void set_length(struct json *j, size_t at, size_t length)
{
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        j->to->data[at + i] = (uint8_t)(length >> (8 * (LENGTH_BYTES - 1 - i)));
}

static void skip_space(struct json *j)
{
    while (j->next < j->end && (*j->next == ' ' || *j->next == '\t' || *j->next == '\n' || *j->next == '\r'))
        j->next++;
}

/* Takes the byte if it comes next. */
static bool take(struct json *j, char byte)
{
    skip_space(j);
    if (j->next == j->end || *j->next != (uint8_t)byte)
        return false;
    j->next++;
    return true;
}

/* ---- Strings ---- */

static bool read_hex(struct json *j, uint32_t *ret_number)
{
    uint32_t number = 0;
    if (j->end - j->next < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        uint8_t digit = *j->next++;
        if (digit >= '0' && digit <= '9')
            number = number << 4 | (uint32_t)(digit - '0');
        else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f')
            number = number << 4 | (uint32_t)((digit | 0x20) - 'a' + 10);
        else
            return false;
    }
    *ret_number = number;
    return true;
}

static bool put_character(struct json *j, uint32_t c)
{
    if (c < 0x80)
        return put_byte(j, c);
    if (c < 0x800)
        return put_byte(j, 0xC0 | c >> 6) && put_byte(j, 0x80 | (c & 0x3F));
    if (c < 0x10000)
        return put_byte(j, 0xE0 | c >> 12) && put_byte(j, 0x80 | (c >> 6 & 0x3F)) && put_byte(j, 0x80 | (c & 0x3F));
    return put_byte(j, 0xF0 | c >> 18) && put_byte(j, 0x80 | (c >> 12 & 0x3F)) &&
           put_byte(j, 0x80 | (c >> 6 & 0x3F)) && put_byte(j, 0x80 | (c & 0x3F));
}

/* Behind \u; half a pair of surrogates is left to the check that texts are UTF-8. */
static bool put_escaped(struct json *j)
{
    uint32_t c, low;
    if (!read_hex(j, &c))
        return false;
    if (c >= 0xD800 && c <= 0xDBFF && j->end - j->next >= 6 && j->next[0] == '\\' && j->next[1] == 'u') {
        const uint8_t *before = j->next;
        j->next += 2;
        if (read_hex(j, &low) && low >= 0xDC00 && low <= 0xDFFF)
            return put_character(j, 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00));
        j->next = before;
    }
    return put_character(j, c);
}

static bool read_escape(struct json *j)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (j->next == j->end)
        return false;
    uint8_t c = *j->next++;
    const char *found = c ? strchr(from, c) : NULL;
    if (found)
        return put_byte(j, (uint8_t)to[found - from]);
    return c == 'u' && put_escaped(j);
}

static bool read_string(struct json *j)
{
    size_t at;
    if (!take(j, '"') || !put_open(j, 0xDB, &at))
        return false;
    size_t begin = j->to->end;
    for (;;) {
        const uint8_t *plain = j->next;
        while (j->next < j->end && *j->next != '"' && *j->next != '\\' && *j->next >= 0x20)
            j->next++;
        if (!put(j, plain, (size_t)(j->next - plain)) || j->next == j->end)
            return false;
        uint8_t byte = *j->next++;
        if (byte == '"')
            break;
        if (byte != '\\' || !read_escape(j))
            return false;
    }
    set_length(j, at, j->to->end - begin);
    return true;
}

/* ---- Everything else ---- */

static bool read_word(struct json *j, const char *word, unsigned byte)
{
    size_t bytes = strlen(word);
    if ((size_t)(j->end - j->next) < bytes || memcmp(j->next, word, bytes) != 0)
        return false;
    j->next += bytes;
    return put_byte(j, byte);
}

static bool is_of_number(uint8_t c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static bool read_number(struct json *j)
{
    uint8_t bytes[9] = {0xCF};
    uint64_t number = 0;
    bool is_whole = true;
    const uint8_t *begin = j->next;
    for (; j->next < j->end && is_of_number(*j->next); j->next++) {
        unsigned digit = (unsigned)*j->next - '0';
        is_whole = is_whole && digit <= 9 && number <= (UINT64_MAX - digit) / 10;
        number = number * 10 + digit;
    }
    if (j->next == begin)
        return false;
    if (!is_whole)
        return put_byte(j, 0xC0);
    for (unsigned i = 0; i < 8; i++)
        bytes[1 + i] = (uint8_t)(number >> (8 * (7 - i)));
    return put(j, bytes, sizeof(bytes));
}

static bool read_scalar(struct json *j)
{
    skip_space(j);
    switch (j->next < j->end ? *j->next : 0) {
    case '"': return read_string(j);
    case 't': return read_word(j, "true", 0xC3);
    case 'f': return read_word(j, "false", 0xC2);
    case 'n': return read_word(j, "null", 0xC0);
    default: return read_number(j);
    }
}

/* A list or an object that is being read. */
struct level {
    size_t at; /* of its length */
    uint32_t count;
    bool is_object;
};

/* Reads a scalar, or opens a list or an object, which is then the last level. */
static bool read_next(struct json *j, struct level *levels)
{
    bool is_object = take(j, '{');
    if (!is_object && !take(j, '['))
        return read_scalar(j);
    if (++j->depth == LEVELS)
        return false;
    struct level *level = &levels[j->depth];
    *level = (struct level){.is_object = is_object};
    return put_open(j, is_object ? MAP_HEAD : ARRAY_HEAD, &level->at);
}

/* Ends what is complete, up to where another value has to come. */
static bool go_on(struct json *j, struct level *levels)
{
    while (j->depth > 0) {
        struct level *level = &levels[j->depth];
        if (take(j, level->is_object ? '}' : ']')) {
            set_length(j, level->at, level->count);
            j->depth--;
            continue;
        }
        if (level->count++ > 0 && !take(j, ','))
            return false;
        return !level->is_object || (read_string(j) && take(j, ':'));
    }
    return true;
}

int nc_json_to_msgpack(const uint8_t *text, size_t bytes, struct nc_buffer *to)
{
    struct json j = {.next = text, .end = text + bytes, .to = to};
    struct level levels[LEVELS];
    bool is_good;
    do
        is_good = read_next(&j, levels) && go_on(&j, levels);
    while (is_good && j.depth > 0);
    skip_space(&j);
    if (j.no_memory)
        return NEARCALL_E_RESOURCE_EXHAUSTED;
    return is_good && j.next == j.end ? NEARCALL_OK : NEARCALL_E_INVALID_ARGUMENT;
}
