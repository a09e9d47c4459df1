/* Descriptions of functions as structs, in every form that they have and do not have. */
#include "schema/schema.h"

#include "test.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* The MessagePack of a text of JSON, so that descriptions can be read here. */
static struct nc_buffer packed(const char *json)
{
    struct nc_buffer buffer = {0};
    CHECK_INT(nc_json_to_msgpack((const uint8_t *)json, strlen(json), &buffer), NEARCALL_OK);
    return buffer;
}

static nearcall_schema *read_schema(const char *json)
{
    struct nc_buffer description = packed(json);
    nearcall_schema *schema = NULL;
    const char *problem = "";
    int r = nearcall_schema_read(description.data, description.end, &schema, &problem);
    if (r != NEARCALL_OK)
        fprintf(stderr, "%s: %s\n", json, problem);
    CHECK_INT(r, NEARCALL_OK);
    nc_buffer_free(&description);
    return schema;
}

static void refused(const char *json, const char *says)
{
    struct nc_buffer description = packed(json);
    nearcall_schema *schema = NULL;
    const char *problem = "";
    CHECK_INT(nearcall_schema_read(description.data, description.end, &schema, &problem), NEARCALL_E_INVALID_ARGUMENT);
    if (!strstr(problem, says))
        fprintf(stderr, "%s: %s\n", json, problem);
    CHECK(strstr(problem, says) != NULL && schema == NULL);
    nc_buffer_free(&description);
}

/* ---- What is there ---- */

static void of_greet(void)
{
    nearcall_schema *schema = read_schema(
        "{\"name\":\"greet\",\"doc\":\"Greets a person.\",\"hash\":\"" HASH "\",\"idempotent\":true,\"future\":[{}],"
        "\"params\":[{\"name\":\"person\",\"type\":{\"struct\":\"Person\"},\"more\":1}],\"results\":[\"string\",\"uint8\"],"
        "\"types\":{\"Unused\":{\"fields\":[]},\"Person\":{\"doc\":\"\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"},"
        "{\"type\":{\"optional\":\"int64\"},\"name\":\"age\"},{\"name\":\"tags\",\"type\":{\"list\":\"string\"}}]}}}");
    const nearcall_description *greet = nearcall_schema_functions(schema);
    CHECK(strcmp(greet->name, "greet") == 0 && greet->name_bytes == 5 && greet->next == NULL);
    CHECK(strcmp(greet->doc, "Greets a person.") == 0 && strcmp(greet->hash, HASH) == 0);
    CHECK(greet->is_idempotent && !greet->is_raw && !greet->is_variadic);
    CHECK(greet->params_count == 1 && greet->params_required == 1 && greet->results_count == 2);
    const nearcall_field *person = greet->params;
    CHECK(strcmp(person->name, "person") == 0 && person->next == NULL && person->number == 0);
    CHECK(person->type->kind == NEARCALL_TYPE_STRUCT && strcmp(person->type->name, "Person") == 0);
    const nearcall_field *name = person->type->fields, *age = name->next, *tags = age->next;
    CHECK(person->type->fields_count == 3 && tags->next == NULL && tags->number == 2);
    CHECK(strcmp(age->name, "age") == 0 && age->type->kind == NEARCALL_TYPE_OPTIONAL);
    CHECK(age->type->element->least == INT64_MIN && age->type->element->most == INT64_MAX);
    CHECK(tags->type->kind == NEARCALL_TYPE_LIST && tags->type->element == name->type);
    CHECK(greet->results->type == name->type && greet->results->name_bytes == 0); /* each type is there once */
    CHECK(greet->results->next->type->most == 255 && greet->results->next->type->least == 0);
    uint32_t count, seen = 0;
    for (const nearcall_type *type = nearcall_schema_types(schema, &count); type; type = type->next)
        CHECK_INT(type->number, seen++);
    CHECK(seen == count && count == 6);
    nearcall_schema_free(schema);
}

static uint32_t required(const char *params, bool variadic)
{
    char json[500];
    snprintf(json, sizeof(json), "{\"name\":\"f\",\"params\":[%s],\"results\":[],\"variadic\":%s}", params,
             variadic ? "true" : "false");
    nearcall_schema *schema = read_schema(json);
    uint32_t count = nearcall_schema_functions(schema)->params_required;
    nearcall_schema_free(schema);
    return count;
}

static void what_may_be_left_out(void)
{
#define PLAIN "{\"name\":\"a\",\"type\":\"bool\"}"
#define OPTIONAL "{\"name\":\"b\",\"type\":{\"optional\":\"bool\"}}"
    CHECK_INT(required("", false), 0);
    CHECK_INT(required(PLAIN, true), 0);
    CHECK_INT(required(PLAIN "," OPTIONAL "," OPTIONAL, false), 1);
    CHECK_INT(required(OPTIONAL "," PLAIN, false), 2);
    CHECK_INT(required(PLAIN "," OPTIONAL "," PLAIN, true), 1);
    CHECK_INT(required(OPTIONAL "," OPTIONAL, true), 0);
}

static void of_itself(void)
{
    nearcall_schema *schema = read_schema(
        "{\"name\":\"f\",\"params\":[],\"results\":[{\"map\":[\"int8\",{\"struct\":\"Tree\"}]}],"
        "\"types\":{\"Tree\":{\"fields\":[{\"name\":\"trees\",\"type\":{\"list\":{\"struct\":\"Tree\"}}}]}}}");
    const nearcall_type *map = nearcall_schema_functions(schema)->results->type;
    const nearcall_type *tree = map->element;
    CHECK(map->kind == NEARCALL_TYPE_MAP && map->key->least == INT8_MIN);
    CHECK(tree->fields->type->element == tree);
    nearcall_schema_free(schema);
}

/* The names of Perl's and Python's tests of servers that lie say what each is. */
static void what_is_none(void)
{
#define F(params, results) "{\"name\":\"f\",\"params\":" params ",\"results\":" results "}"
#define P(type) F("[{\"name\":\"x\",\"type\":" type "}]", "[]")
    refused("1", "no map");
    refused("{}", "missing");
    refused(F("1", "[]"), "no list");
    refused(F("[]", "{}"), "no list");
    refused(F("[1]", "[]"), "no map");
    refused(F("[{\"name\":\"x\"}]", "[]"), "no type");
    refused(F("[{\"type\":\"bool\"}]", "[]"), "no name");
    refused(F("[{\"name\":1,\"type\":\"bool\"}]", "[]"), "no name");
    refused(P("\"int128\""), "does not know");
    refused(P("{\"set\":\"bool\"}"), "does not know");
    refused(P("5"), "neither a name");
    refused(P("{}"), "neither a name");
    refused(P("{\"map\":[\"string\"]}"), "two types");
    refused(P("{\"map\":\"string\"}"), "no list");
    refused(P("{\"map\":[\"float64\",\"bool\"]}"), "key");
    refused(P("{\"struct\":\"Lost\"}"), "lacks a struct");
    refused(P("{\"struct\":1}"), "no name");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[],\"types\":5}", "types are no map");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[],\"types\":{\"A\":{},\"B\":{},\"A\":{}}}", "twice");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[{\"struct\":\"S\"}],\"types\":{\"S\":{}}}", "no fields");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[{\"struct\":\"S\"}],\"types\":{\"S\":[]}}", "no map");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[],\"raw\":true}", "raw");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[],\"variadic\":true}", "variadic");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[],\"raw\":1}", "flag");
    refused("{\"name\":5,\"params\":[],\"results\":[]}", "no string");
}

/* Whatever is missing at the end, or follows it. */
static void cut_off(void)
{
    struct nc_buffer whole = packed("{\"name\":\"f\",\"params\":[],\"results\":[{\"map\":[\"string\",{\"list\":\"any\"}]}],\"doc\":\"x\"}");
    nearcall_schema *schema;
    for (size_t bytes = 0; bytes < whole.end; bytes++) {
        uint8_t *exact = malloc(bytes ? bytes : 1); /* so that a sanitizer sees a look behind it */
        CHECK(exact != NULL);
        memcpy(exact, whole.data, bytes);
        CHECK_INT(nearcall_schema_read(exact, bytes, &schema, NULL), NEARCALL_E_INVALID_ARGUMENT);
        free(exact);
    }
    CHECK_INT(nc_buffer_append(&whole, "\xc0", 1), 0);
    CHECK_INT(nearcall_schema_read(whole.data, whole.end, &schema, NULL), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(nearcall_schema_read(whole.data, whole.end - 1, &schema, NULL), NEARCALL_OK);
    nearcall_schema_free(schema);
    nc_buffer_free(&whole);
    static const uint8_t not_text[] = "\x83\xa4name\xa1\xff\xa6params\x90\xa7results\x90";
    CHECK_INT(nearcall_schema_read(not_text, sizeof(not_text) - 1, &schema, NULL), NEARCALL_E_INVALID_ARGUMENT);
}

/* A document with very many structs takes no longer than it is long. */
static void many_structs(void)
{
    enum { COUNT = 60000 };
    char *json = malloc(COUNT * 100), *at = json;
    CHECK(json != NULL);
    at += sprintf(at, "{\"name\":\"f\",\"params\":[],\"results\":[{\"struct\":\"S0\"}],\"types\":{");
    for (int i = 0; i < COUNT; i++)
        at += sprintf(at, "%s\"S%d\":{\"fields\":[{\"name\":\"x\",\"type\":{\"list\":{\"struct\":\"S%d\"}}}]}", i ? "," : "", i,
                      (i + 1) % COUNT);
    sprintf(at, "}}");
    double began_ms = test_now_ms();
    nearcall_schema *schema = read_schema(json);
    CHECK(test_now_ms() - began_ms < 5000 * test_slowness());
    uint32_t count;
    CHECK(nearcall_schema_types(schema, &count) != NULL);
    CHECK_INT(count, 2 * COUNT);
    nearcall_schema_free(schema);
    free(json);
}

/* A program compares hashes, so what is none must not look like one. */
static void hashes_that_are_none(void)
{
    static const char *const none[] = {
        "\"\"", "\"ab\"", "\"0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\"",
        "\"g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"", "\"" HASH "0\"", "5", "null", "[]",
    };
    char json[200];
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        snprintf(json, sizeof(json), "{\"name\":\"f\",\"hash\":%s,\"params\":[],\"results\":[]}", none[i]);
        nearcall_schema *schema = read_schema(json);
        CHECK(strcmp(nearcall_schema_functions(schema)->hash, "") == 0);
        nearcall_schema_free(schema);
    }
}

/* ---- A newer server ---- */

#define ONE_NEW "{\"name\":\"new\",\"params\":[{\"name\":\"p\",\"type\":\"decimal\"}],\"results\":[{\"set\":[\"a\",{}]}]}"
#define ONE_OLD "{\"name\":\"old\",\"params\":[],\"results\":[{\"list\":\"int8\"}]}"
#define ONE_INSIDE                                                                                         \
    "{\"name\":\"inside\",\"params\":[],\"results\":[{\"struct\":\"S\"},{\"map\":[\"decimal\",\"any\"]},{\"optional\":\"decimal\"}]}"

static nearcall_schema *read_document(const char *json)
{
    struct nc_buffer document = packed(json);
    nearcall_schema *schema = NULL;
    const char *problem = "";
    CHECK_INT(nc_schema_compile(document.data, document.end, true, &schema, &problem), NEARCALL_OK);
    nc_buffer_free(&document);
    return schema;
}

static const nearcall_type *unknown(const nearcall_type *type, const char *name)
{
    CHECK_INT(type->kind, NEARCALL_TYPE_UNKNOWN);
    CHECK(strcmp(type->name, name) == 0 && type->name_bytes == strlen(name));
    return type;
}

/* One function that needs a newer library hides none of the others. */
static void of_a_newer_server(void)
{
    nearcall_schema *schema = read_document(
        "{\"functions\":[" ONE_NEW "," ONE_OLD "," ONE_INSIDE "],\"types\":{\"S\":{\"fields\":[{\"name\":\"x\",\"type\":\"decimal\"},"
        "{\"name\":\"y\",\"type\":\"bool\"}]}}}");
    const nearcall_description *new_one = nearcall_schema_functions(schema), *old = new_one->next, *inside = old->next;
    CHECK(strcmp(new_one->name, "new") == 0 && strcmp(old->name, "old") == 0 && inside->next == NULL);
    unknown(new_one->params->type, "decimal");
    CHECK_INT(old->results->type->element->most, INT8_MAX);
    const nearcall_field *x = inside->results->type->fields;
    unknown(x->type, "decimal");
    CHECK_INT(x->next->type->kind, NEARCALL_TYPE_BOOL);
    unknown(inside->results->next->type->key, "decimal");

    const uint8_t seven[] = {0x07};
    nearcall_reader reader = {seven, seven + 1};
    nearcall_walker walker;
    nearcall_value value;
    nearcall_step step;
    CHECK_INT(nearcall_read_as(&reader, unknown(new_one->results->type, "set"), &value), NEARCALL_E_INVALID_ARGUMENT);
    CHECK(reader.next == seven);
    CHECK_INT(nearcall_read_as(&reader, inside->results->next->next->type, &value), NEARCALL_E_INVALID_ARGUMENT);
    CHECK_INT(nearcall_packed_element(new_one->results->type), 0);
    CHECK_INT(nearcall_walk_begin(&walker, new_one, seven, 1), NEARCALL_OK);
    CHECK_INT(nearcall_walk(&walker, &step), NEARCALL_E_INVALID_ARGUMENT);
    nearcall_schema_free(schema);

    refused(ONE_NEW, "a type that this version does not know");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[{\"list\":{\"set\":\"int8\"}}]}", "a type that this version does not know");
    refused("{\"name\":\"f\",\"params\":[],\"results\":[{\"set\":\"int8\",\"list\":\"int8\"}]}", "neither a name nor a map of one");
}

/* ---- JSON ---- */

static void becomes(const char *json, const char *bytes, size_t count)
{
    struct nc_buffer buffer = packed(json);
    CHECK_INT(buffer.end, count);
    CHECK(memcmp(buffer.data, bytes, count) == 0);
    nc_buffer_free(&buffer);
}
#define BECOMES(json, bytes) becomes(json, bytes, sizeof(bytes) - 1)

static void is_no_json(const char *json)
{
    struct nc_buffer buffer = {0};
    CHECK_INT(nc_json_to_msgpack((const uint8_t *)json, strlen(json), &buffer), NEARCALL_E_INVALID_ARGUMENT);
    nc_buffer_free(&buffer);
}

static void of_json(void)
{
    BECOMES(" [ ] ", "\xdd\0\0\0\0");
    BECOMES("{\"a\" : [true,\tfalse,\nnull]}", "\xdf\0\0\0\1\xdb\0\0\0\1a\xdd\0\0\0\3\xc3\xc2\xc0");
    BECOMES("18446744073709551615", "\xcf\xff\xff\xff\xff\xff\xff\xff\xff");
    BECOMES("18446744073709551616", "\xc0");
    BECOMES("[-1,1.5e3]", "\xdd\0\0\0\2\xc0\xc0");
    BECOMES("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\xdb\0\0\0\x8\"\\/\b\f\n\r\t");
    BECOMES("\"\\u00e9\\u20AC\\ud83d\\ude00\"", "\xdb\0\0\0\x9\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    BECOMES("\"\\ud83dx\"", "\xdb\0\0\0\4\xed\xa0\xbdx"); /* which is not UTF-8, and refused for that */
    static const char *const none[] = {"",     " ",    "[",     "[1",   "[1,]",    "[,1]",  "[1 2]",  "{\"a\"}", "{\"a\":}",
                                       "{1:2}", "{\"a\":1,}", "]",  "tru",  "\"",    "\"\\x\"", "\"\\u12\"", "\"\\u12x4\"", "1 2",
                                       "[}",   "\"a\nb\"",  "nul", "{,}"};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        is_no_json(none[i]);
    char deep[2001];
    memset(deep, '[', 1000);
    memset(deep + 1000, ']', 1000);
    deep[2000] = '\0';
    is_no_json(deep);
}

/* ---- Of a server ---- */

static const nearcall_description *find(const nearcall_schema *schema, const char *name)
{
    for (const nearcall_description *f = nearcall_schema_functions(schema); f; f = f->next)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* What the server says of one function alone is the same. */
static void of_each_function(nearcall_client *client, const nearcall_schema *schema)
{
    for (const nearcall_description *f = nearcall_schema_functions(schema); f; f = f->next) {
        nearcall_function *function = test_find(client, f->name);
        nearcall_schema *alone;
        size_t bytes;
        const uint8_t *data = nearcall_function_schema(function, &bytes);
        CHECK_INT(nearcall_schema_read(data, bytes, &alone, NULL), NEARCALL_OK);
        const nearcall_description *same = nearcall_schema_functions(alone);
        CHECK(strcmp(f->name, same->name) == 0 && strcmp(f->doc, same->doc) == 0);
        CHECK(strcmp(f->hash, same->hash) == 0 && strcmp(f->hash, nearcall_function_hash(function)) == 0);
        CHECK(f->params_count == same->params_count && f->params_required == same->params_required);
        CHECK(f->results_count == same->results_count && f->is_variadic == same->is_variadic);
        CHECK(f->is_raw == same->is_raw && f->is_idempotent == same->is_idempotent);
        for (const nearcall_field *a = f->params, *b = same->params; a; a = a->next, b = b->next)
            CHECK(strcmp(a->name, b->name) == 0 && strcmp(a->type->name, b->type->name) == 0);
        nearcall_schema_free(alone);
    }
}

static void of_a_server(void)
{
    struct server server;
    nearcall_schema *schema;
    server_start(&server);
    nearcall_client *client = test_open(server.address, 0);
    CHECK_CALL(client, nearcall_schema_fetch(client, 0, &schema), NEARCALL_OK);
    const nearcall_description *divmod = find(schema, "divmod");
    CHECK(divmod && strcmp(divmod->doc, "Divides: returns quotient and remainder.") == 0);
    CHECK(divmod->params_count == 2 && strcmp(divmod->params->next->name, "b") == 0 && divmod->results_count == 2);
    CHECK(find(schema, "echo")->is_raw && find(schema, "sum")->is_variadic && !find(schema, "nearcall.schema"));
    of_each_function(client, schema);
    nearcall_schema_free(schema);
    server_kill(&server);
    nearcall_close(client);
    client = test_open(server.address, 0);
    schema = NULL;
    CHECK_CALL(client, nearcall_schema_fetch(client, 500, &schema), NEARCALL_E_UNAVAILABLE);
    CHECK(schema == NULL);
    nearcall_close(client);
}

int main(void)
{
    test_begin();
    of_greet();
    what_may_be_left_out();
    of_itself();
    what_is_none();
    cut_off();
    many_structs();
    hashes_that_are_none();
    of_a_newer_server();
    of_json();
    of_a_server();
    return 0;
}
