/* Values read by their types, one by one and in a walk: every form that a type allows becomes one, and
 * nothing else is taken. */
#include "schema/schema.h"

#include "test.h"

static nearcall_schema *schema_of(const char *result)
{
    char json[1000];
    struct nc_buffer description = {0};
    nearcall_schema *schema;
    snprintf(json, sizeof(json), "{\"name\":\"f\",\"params\":[],\"results\":[%s],\"types\":{"
             "\"Pair\":{\"fields\":[{\"name\":\"a\",\"type\":\"int64\"},{\"name\":\"b\",\"type\":\"string\"}]},"
             "\"Tree\":{\"fields\":[{\"name\":\"trees\",\"type\":{\"list\":{\"struct\":\"Tree\"}}}]}}}", result);
    CHECK_INT(nc_json_to_msgpack((const uint8_t *)json, strlen(json), &description), NEARCALL_OK);
    CHECK_INT(nearcall_schema_read(description.data, description.end, &schema, NULL), NEARCALL_OK);
    nc_buffer_free(&description);
    return schema;
}

/* ---- One value ---- */

static int read_one(const char *type, const char *bytes, size_t count, nearcall_value *ret_value)
{
    nearcall_schema *schema = schema_of(type);
    nearcall_reader reader = {(const uint8_t *)bytes, (const uint8_t *)bytes + count};
    int r = nearcall_read_as(&reader, nearcall_schema_functions(schema)->results->type, ret_value);
    CHECK((r == NEARCALL_OK) == ((const char *)reader.next != bytes)); /* it stays where it was, or moves on */
    nearcall_schema_free(schema);
    return r;
}

static void is(const char *type, const char *bytes, size_t count, int expected, int64_t number)
{
    nearcall_value value;
    int64_t actual;
    CHECK_INT(read_one(type, bytes, count, &value), NEARCALL_OK);
    CHECK_INT(value.type, expected);
    if (expected == NEARCALL_FLOAT)
        actual = (int64_t)(value.as.real * 2);
    else if (expected == NEARCALL_BOOL)
        actual = value.as.boolean;
    else if (expected == NEARCALL_INT || expected == NEARCALL_UINT || expected == NEARCALL_FILE || expected == NEARCALL_TIME)
        actual = value.as.integer;
    else
        actual = value.count;
    CHECK_INT(actual, number);
}
#define IS(type, bytes, expected, number) is(type, bytes, sizeof(bytes) - 1, expected, number)

static void is_not(const char *type, const char *bytes, size_t count)
{
    nearcall_value value;
    int r = read_one(type, bytes, count, &value);
    if (r != NEARCALL_E_INVALID_ARGUMENT)
        fprintf(stderr, "%s\n", type);
    CHECK_INT(r, NEARCALL_E_INVALID_ARGUMENT);
}
#define IS_NOT(type, bytes) is_not(type, bytes, sizeof(bytes) - 1)

#define LIST "{\"list\":\"bool\"}"
#define LIST_OF(element) "{\"list\":\"" element "\"}"
#define MAP "{\"map\":[\"string\",\"bool\"]}"
#define OPTIONAL "{\"optional\":{\"optional\":\"float32\"}}"
#define PAIR "{\"struct\":\"Pair\"}"

static void what_fits(void)
{
    nearcall_value value;
    IS("\"bool\"", "\xc3", NEARCALL_BOOL, 1);
    IS("\"int8\"", "\xd1\xff\x80", NEARCALL_INT, -128); /* in any format */
    IS("\"uint8\"", "\xcf\0\0\0\0\0\0\0\xff", NEARCALL_INT, 255);
    IS("\"uint64\"", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff", NEARCALL_UINT, -1);
    IS("\"float64\"", "\xcb\x3f\xf8\0\0\0\0\0\0", NEARCALL_FLOAT, 3);
    IS("\"float64\"", "\7", NEARCALL_FLOAT, 14);
    IS("\"float32\"", "\xce\x80\0\0\0", NEARCALL_FLOAT, 4294967296);
    IS("\"string\"", "\xa2xy", NEARCALL_STRING, 2);
    IS("\"bytes\"", "\xc4\2xy", NEARCALL_BYTES, 2);
    IS("\"bytes\"", "\xa2xy", NEARCALL_BYTES, 2);
    IS("\"time\"", "\xd6\xff\0\0\0\5", NEARCALL_TIME, 5);
    IS("\"duration\"", "\xff", NEARCALL_INT, -1);
    IS("\"file\"", "\xd4\1\2", NEARCALL_FILE, 2);
    IS("\"connection\"", "\xd4\1\0", NEARCALL_FILE, 0);
    IS("\"any\"", "\x92\1\2", NEARCALL_ARRAY, 2);
    IS("\"any\"", "\xc0", NEARCALL_NIL, 0);
    IS(LIST, "\x92\xc2\xc3", NEARCALL_ARRAY, 2);
    IS(LIST, "\xc0", NEARCALL_ARRAY, 0);
    IS(LIST, "\xc7\4\2\1\0\1\0", NEARCALL_PACKED, 2);
    IS(LIST_OF("int8"), "\xc7\4\2\2\0\1\0", NEARCALL_PACKED, 2);
    IS(LIST_OF("int16"), "\xc7\4\2\3\0\1\0", NEARCALL_PACKED, 1);
    IS(LIST_OF("int32"), "\xd5\2\4\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("int64"), "\xd5\2\5\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("duration"), "\xd5\2\5\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("uint8"), "\xd5\2\6\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("uint16"), "\xd5\2\7\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("uint32"), "\xd5\2\x8\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("uint64"), "\xd5\2\x9\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("float32"), "\xd5\2\xa\0", NEARCALL_PACKED, 0);
    IS(LIST_OF("float64"), "\xd5\2\xb\0", NEARCALL_PACKED, 0);
    IS(MAP, "\x81\xa1k\xc3", NEARCALL_MAP, 1);
    IS(MAP, "\xc0", NEARCALL_MAP, 0);
    IS(PAIR, "\x81\xa1\x61\1", NEARCALL_MAP, 1);
    IS(OPTIONAL, "\xc0", NEARCALL_NIL, 0);
    IS(OPTIONAL, "\2", NEARCALL_FLOAT, 4);
    CHECK_INT(read_one("\"bool\"", "", 0, &value), NEARCALL_E_OUT_OF_RANGE);
}

static void what_does_not(void)
{
    IS_NOT("\"bool\"", "\1");
    IS_NOT("\"int8\"", "\xcc\x80");
    IS_NOT("\"int8\"", "\xd1\xff\x7f");
    IS_NOT("\"uint8\"", "\xff");
    IS_NOT("\"uint16\"", "\xce\0\1\0\0");
    IS_NOT("\"int64\"", "\xcf\x80\0\0\0\0\0\0\0");
    IS_NOT("\"int64\"", "\xca\0\0\0\0");
    IS_NOT("\"float64\"", "\xa1x");
    IS_NOT("\"string\"", "\xc4\1x");
    IS_NOT("\"bytes\"", "\xc0");
    IS_NOT("\"time\"", "\5");
    IS_NOT("\"duration\"", "\xcf\x80\0\0\0\0\0\0\0");
    IS_NOT("\"file\"", "\0");
    IS_NOT(LIST, "\x80");
    IS_NOT(LIST, "\xc7\4\2\2\0\1\0"); /* a block of another type */
    IS_NOT(LIST_OF("string"), "\xd5\2\5\0");
    IS_NOT(LIST_OF("int64"), "\xd5\2\4\0");
    IS_NOT("\"any\"", "\xd5\2\5\0");
    IS_NOT("\"bytes\"", "\xd5\2\6\0");
    IS_NOT(LIST, "\x92\xc2");
    IS_NOT(MAP, "\x90");
    IS_NOT(PAIR, "\xc0");
    IS_NOT(OPTIONAL, "\xa1x");
    IS_NOT("\"any\"", "\xc1");
}

/* ---- Fields ---- */

static void fields(void)
{
    nearcall_schema *schema = schema_of(PAIR);
    const nearcall_type *pair = nearcall_schema_functions(schema)->results->type;
    static const char bytes[] = "\x83\xa1\x62\xa1x\xa3new\x91\x90\xa1\x61\7";
    nearcall_reader reader = {(const uint8_t *)bytes, (const uint8_t *)bytes + sizeof(bytes) - 1};
    const nearcall_field *field = NULL;
    nearcall_value value;
    CHECK_INT(nearcall_read_as(&reader, pair, &value), NEARCALL_OK);
    CHECK_INT(value.count, 3);
    CHECK_INT(nearcall_read_field(&reader, pair, &field), NEARCALL_OK); /* in another order */
    CHECK(field && strcmp(field->name, "b") == 0);
    CHECK_INT(nearcall_read_as(&reader, field->type, &value), NEARCALL_OK);
    CHECK_INT(nearcall_read_field(&reader, pair, &field), NEARCALL_OK);
    CHECK(field == NULL); /* unknown, and skipped */
    CHECK_INT(nearcall_read_field(&reader, pair, &field), NEARCALL_OK);
    CHECK(field && strcmp(field->name, "a") == 0);
    CHECK_INT(nearcall_read_as(&reader, field->type, &value), NEARCALL_OK);
    CHECK(value.as.integer == 7 && reader.next == reader.end);
    CHECK_INT(nearcall_read_field(&reader, pair, &field), NEARCALL_E_OUT_OF_RANGE);
    CHECK_INT(nearcall_read_field(&reader, field->type, &field), NEARCALL_E_MISUSE); /* of no struct */
    nearcall_schema_free(schema);
}

/* ---- Walks ---- */

/* The steps as text: values, [ { ( for a list, a map, a struct, and what ends them. */
static int walk(const char *results, const char *bytes, size_t count, char *text)
{
    nearcall_schema *schema = schema_of(results);
    nearcall_walker walker;
    nearcall_step step;
    uint32_t depth = 0;
    int r = nearcall_walk_begin(&walker, nearcall_schema_functions(schema), (const uint8_t *)bytes, count);
    *text = '\0';
    if (r == NEARCALL_OK)
        while ((r = nearcall_walk(&walker, &step)) > 0) {
            bool is_array = step.what == NEARCALL_WALK_END ? step.type->kind == NEARCALL_TYPE_LIST
                                                           : step.value.type == NEARCALL_ARRAY;
            CHECK(step.type->kind != NEARCALL_TYPE_OPTIONAL);
            depth -= step.what == NEARCALL_WALK_END;
            CHECK_INT(step.depth, depth);
            depth += step.what == NEARCALL_WALK_BEGIN;
            text += strlen(text);
            if (step.field && step.field->name_bytes)
                text += sprintf(text, "%s=", step.field->name);
            if (step.what == NEARCALL_WALK_BEGIN)
                sprintf(text, "%s", is_array ? "[" : "{");
            else if (step.what == NEARCALL_WALK_END)
                sprintf(text, "%s", is_array ? "]" : "}");
            else if (step.value.type == NEARCALL_STRING)
                sprintf(text, "%.*s%s", (int)step.value.count, (const char *)step.value.as.data, step.is_key ? ":" : " ");
            else if (step.value.type == NEARCALL_INT)
                sprintf(text, "%lld%s", (long long)step.value.as.integer, step.is_key ? ":" : " ");
            else
                sprintf(text, "%d? ", step.value.type);
        }
    nearcall_schema_free(schema);
    return r;
}

static void walks(const char *results, const char *bytes, size_t count, const char *expected)
{
    char text[2000];
    CHECK_INT(walk(results, bytes, count, text), 0);
    if (strcmp(text, expected) != 0)
        fprintf(stderr, "got %s, expected %s\n", text, expected);
    CHECK(strcmp(text, expected) == 0);
    for (size_t i = 1; i < count; i++) { /* cut off anywhere */
        char *exact = malloc(i);
        CHECK(exact != NULL);
        memcpy(exact, bytes, i);
        CHECK(walk(results, exact, i, text) < 0);
        free(exact);
    }
}
#define WALKS(results, bytes, expected) walks(results, bytes, sizeof(bytes) - 1, expected)

static void stumbles(const char *results, const char *bytes, size_t count)
{
    char text[8000];
    CHECK_INT(walk(results, bytes, count, text), NEARCALL_E_INVALID_ARGUMENT);
}
#define STUMBLES(results, bytes) stumbles(results, bytes, sizeof(bytes) - 1)

static void whole_results(void)
{
    WALKS("\"int64\"", "\7", "7 ");
    WALKS("\"int64\",\"string\"", "\x92\7\xa1x", "7 x ");
    WALKS("", "\xc0", "");
    WALKS("", "", "");
    WALKS("{\"list\":\"int64\"},{\"map\":[\"string\",\"int64\"]}", "\x92\x92\1\2\x81\xa1k\3", "[1 2 ]{k:3 }");
    WALKS("{\"map\":[\"int8\",{\"list\":\"int8\"}]}", "\x82\1\xc0\2\x91\3", "{1:[]2:[3 ]}");
    WALKS(PAIR, "\x83\xa1\x61\1\xa3new\x91\x90\xa1\x62\xa1x", "{a=1 b=x }");
    WALKS("{\"struct\":\"Tree\"}", "\x81\xa5trees\x92\x80\x81\xa5trees\x90", "{trees=[{}{trees=[]}]}");
    WALKS("{\"optional\":\"int64\"}", "\xc0", "0? ");
    WALKS("\"any\"", "\x81\xa1k\x81\1\2", "{k:{1:2 }}");
    STUMBLES("\"int64\"", "");
    STUMBLES("\"int64\"", "\7\7");
    STUMBLES("\"int64\",\"int64\"", "\x91\7");
    STUMBLES("\"int64\",\"int64\"", "\7");
    STUMBLES("", "\7");
    STUMBLES(PAIR, "\x81\1\1");
    STUMBLES("\"any\"", "\x81\x90\1");
    char deep[100000];
    memset(deep, '\x91', sizeof(deep));
    stumbles("\"any\"", deep, sizeof(deep));
    deep[32] = '\xc0';
    char text[2000];
    CHECK_INT(walk("\"any\"", deep, 33, text), 0); /* as deep as may be */
    deep[32] = '\x91';
    deep[33] = '\xc0';
    stumbles("\"any\"", deep, 34);
}

int main(void)
{
    test_begin();
    what_fits();
    what_does_not();
    fields();
    whole_results();
    return 0;
}
