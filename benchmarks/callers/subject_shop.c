/* libnearcall: the functions of package shop, as a program in C calls them: every argument is put for each
 * call, and every value of the answer is read. What they are given is the same in gocaller/shop.go. */
#include <nearcall.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "functions.h"

enum {
    ORDER_LINES = 8, FOUND = 20, TAGS = 2, EVENTS = 20,
    PICTURE_BYTES = 30 << 10, THUMBNAIL_BYTES = 32 * 20 * 3, HISTORY_DAYS = 730, AHEAD_DAYS = 28
};

/* What a program has before it calls. */
struct shop {
    nearcall_client *client;
    nearcall_function *function;
    const struct errand *errand;
    nearcall_reply reply;
    uint8_t *pixels;
    double history[HISTORY_DAYS];
};

/* What is left of an answer. The first value that is not as it has to be makes all that follow nothing. */
struct answer {
    nearcall_reader rest;
    int failed;
    int is_first; /* that of the first call, of which more is looked at than is cheap */
};

/* One function: how its request is put together, and what the answer has to be. */
struct errand {
    const char *mode, *function;
    int codec;
    void (*put)(const struct shop *shop, nearcall_client *client);
    int (*is_right)(struct answer *answer);
};

static nearcall_value take(struct answer *answer, int type)
{
    nearcall_value value = {.type = NEARCALL_NIL};

    if (!answer->failed && (nearcall_read(&answer->rest, &value) != NEARCALL_OK || value.type != type)) {
        answer->failed = 1;
        value = (nearcall_value){.type = NEARCALL_NIL};
    }
    return value;
}

static int is_text(const nearcall_value *value, const char *text)
{
    return value->count == strlen(text) && memcmp(value->as.data, text, value->count) == 0;
}

/* The name of a field, which has to be this. */
static void take_name(struct answer *answer, const char *name)
{
    const nearcall_value value = take(answer, NEARCALL_STRING);

    if (!answer->failed && !is_text(&value, name))
        answer->failed = 1;
}

static int64_t take_int(struct answer *answer, const char *name)
{
    take_name(answer, name);
    return take(answer, NEARCALL_INT).as.integer;
}

static uint32_t take_list(struct answer *answer, const char *name, uint32_t most)
{
    uint32_t count;

    take_name(answer, name);
    count = take(answer, NEARCALL_ARRAY).count;
    if (count > most)
        answer->failed = 1;
    return answer->failed ? 0 : count;
}

static void put_text(nearcall_client *client, const char *text) { nearcall_put_string(client, text, strlen(text)); }

static void put_named_text(nearcall_client *client, const char *name, const char *text)
{
    put_text(client, name);
    put_text(client, text);
}

static void put_named_int(nearcall_client *client, const char *name, int64_t value)
{
    put_text(client, name);
    nearcall_put_int(client, value);
}

static void put_order(const struct shop *shop, nearcall_client *client)
{
    char sku[16];

    (void)shop;
    nearcall_put_array(client, 1);
    nearcall_put_map(client, 4);
    put_named_text(client, "customer", "c-1042");
    put_named_text(client, "country", "DE");
    put_text(client, "lines");
    nearcall_put_array(client, ORDER_LINES);
    for (int i = 0; i < ORDER_LINES; i++) {
        memcpy(sku, "sku-1000", sizeof "sku-1000");
        sku[strlen(sku) - 1] = (char)('0' + i);
        nearcall_put_map(client, 4);
        put_named_text(client, "sku", sku);
        put_named_int(client, "quantity", 1 + 2 * i);
        put_named_int(client, "unit_cents", 199 + 100 * i);
        put_text(client, "weight_kg");
        nearcall_put_double(client, 0.25 * (1 + i));
    }
    put_text(client, "coupon");
    nearcall_put_map(client, 2);
    put_named_text(client, "code", "WINTER10");
    put_named_int(client, "percent", 10);
}

static int is_quote(struct answer *answer)
{
    struct {
        const uint8_t *sku;
        int64_t cents;
    } lines[ORDER_LINES];
    int64_t sum = 0, discount, shipping, tax, total;
    uint32_t count;

    take(answer, NEARCALL_MAP);
    count = take_list(answer, "lines", ORDER_LINES);
    for (uint32_t i = 0; i < count; i++) {
        take(answer, NEARCALL_MAP);
        take_name(answer, "sku");
        lines[i].sku = take(answer, NEARCALL_STRING).as.data;
        lines[i].cents = take_int(answer, "cents");
        sum += lines[i].cents;
    }
    discount = take_int(answer, "discount_cents");
    shipping = take_int(answer, "shipping_cents");
    tax = take_int(answer, "tax_cents");
    total = take_int(answer, "total_cents");
    return count == ORDER_LINES && sum == 41959 && total == 55916 && sum - discount + shipping + tax == total;
}

static void put_search(const struct shop *shop, nearcall_client *client)
{
    (void)shop;
    nearcall_put_array(client, 2);
    put_text(client, "Blue Oak");
    nearcall_put_int(client, FOUND);
}

static int is_found(struct answer *answer)
{
    struct {
        int64_t id, price_cents;
        nearcall_value name, tags[TAGS];
        double rating;
        int in_stock;
    } products[FOUND];
    const uint32_t count = take(answer, NEARCALL_ARRAY).count;
    int64_t ids = 0;

    for (uint32_t i = 0; i < count && i < FOUND; i++) {
        take(answer, NEARCALL_MAP);
        products[i].id = take_int(answer, "id");
        take_name(answer, "name");
        products[i].name = take(answer, NEARCALL_STRING);
        products[i].price_cents = take_int(answer, "price_cents");
        take_name(answer, "rating");
        products[i].rating = take(answer, NEARCALL_FLOAT).as.real;
        take_name(answer, "in_stock");
        products[i].in_stock = take(answer, NEARCALL_BOOL).as.boolean;
        for (uint32_t tags = take_list(answer, "tags", TAGS), tag = 0; tag < tags; tag++)
            products[i].tags[tag] = take(answer, NEARCALL_STRING);
        ids += products[i].id;
    }
    return count == FOUND && ids == 2610 && !answer->failed && products[0].rating > products[FOUND - 1].rating &&
           products[0].in_stock && products[0].price_cents == 9160 && is_text(&products[0].name, "blue oak box") &&
           is_text(&products[0].tags[1], "box");
}

static void put_session(const struct shop *shop, nearcall_client *client)
{
    (void)shop;
    nearcall_put_array(client, 2);
    nearcall_put_map(client, 8);
    put_named_text(client, "user", "u-1042");
    put_named_int(client, "visits", 41);
    put_text(client, "basket");
    nearcall_put_array(client, 2);
    put_text(client, "sku-1000");
    put_text(client, "sku-1004");
    put_text(client, "pages");
    nearcall_put_array(client, 2);
    put_text(client, "/");
    put_text(client, "/lamps");
    put_text(client, "preferences");
    nearcall_put_map(client, 2);
    put_named_text(client, "currency", "EUR");
    put_text(client, "newsletter");
    nearcall_put_bool(client, 1);
    put_named_text(client, "theme", "dark");
    put_text(client, "score");
    nearcall_put_double(client, 0.75);
    put_text(client, "campaign");
    nearcall_put_nil(client);
    put_text(client, "/lamps/17");
}

/* Pairs come in any order, and values of any type. */
static int is_session(struct answer *answer)
{
    const uint32_t count = take(answer, NEARCALL_MAP).count;
    int64_t visits = 0;
    uint32_t pages = 0;

    for (uint32_t i = 0; i < count && !answer->failed; i++) {
        const nearcall_value name = take(answer, NEARCALL_STRING);

        if (is_text(&name, "visits"))
            visits = take(answer, NEARCALL_INT).as.integer;
        else if (is_text(&name, "pages")) {
            pages = take(answer, NEARCALL_ARRAY).count;
            for (uint32_t page = 0; page < pages; page++)
                take(answer, NEARCALL_STRING);
        } else if (nearcall_skip(&answer->rest) != NEARCALL_OK)
            answer->failed = 1;
    }
    return count == 8 && visits == 42 && pages == 3;
}

static void put_events(const struct shop *shop, nearcall_client *client)
{
    static const char *const kinds[] = {"view", "view", "search", "view", "add"};
    static const char *const pages[] = {"/p/0", "/p/1", "/p/2", "/p/3"};
    enum { BEGIN_S = 1793534400 /* 2026-11-01T12:00:00Z */, BETWEEN_MS = 1500, MS_PER_S = 1000 };

    (void)shop;
    nearcall_put_array(client, 1);
    nearcall_put_array(client, EVENTS);
    for (int i = 0; i < EVENTS; i++) {
        const int ms = i * BETWEEN_MS;

        nearcall_put_map(client, 3);
        put_named_text(client, "kind", kinds[i % 5]);
        put_text(client, "at");
        nearcall_put_time(client, BEGIN_S + ms / MS_PER_S, (uint32_t)(ms % MS_PER_S) * NS_PER_MS);
        put_text(client, "properties");
        nearcall_put_map(client, 3);
        put_named_text(client, "page", pages[i % 4]);
        put_named_text(client, "campaign", "winter");
        put_named_text(client, "browser", "firefox");
    }
}

/* Adds up the numbers of a map of texts to numbers. */
static int64_t take_counts(struct answer *answer, const char *name)
{
    int64_t sum = 0;
    uint32_t count;

    take_name(answer, name);
    count = take(answer, NEARCALL_MAP).count;
    for (uint32_t i = 0; i < count && !answer->failed; i++) {
        take(answer, NEARCALL_STRING);
        sum += take(answer, NEARCALL_INT).as.integer;
    }
    return sum;
}

static int is_summary(struct answer *answer)
{
    nearcall_value first, last;

    take(answer, NEARCALL_MAP);
    take_name(answer, "first");
    first = take(answer, NEARCALL_TIME);
    take_name(answer, "last");
    last = take(answer, NEARCALL_TIME);
    return last.as.integer - first.as.integer == 28 && last.count == 500 * NS_PER_MS && take_counts(answer, "kinds") == EVENTS &&
           take_counts(answer, "pages") == EVENTS;
}

static void put_picture(const struct shop *shop, nearcall_client *client)
{
    nearcall_put_array(client, 2);
    nearcall_put_bytes(client, shop->pixels, PICTURE_BYTES);
    nearcall_put_map(client, 4);
    put_named_int(client, "width", 128);
    put_named_int(client, "new_width", 32);
    put_named_int(client, "new_height", 20);
    put_text(client, "grey");
    nearcall_put_bool(client, 0);
}

static int is_thumbnail(struct answer *answer)
{
    const nearcall_value pixels = take(answer, NEARCALL_BYTES);
    uint8_t own[THUMBNAIL_BYTES];
    int64_t sum = 0;

    if (pixels.count != sizeof own)
        return 0;
    memcpy(own, pixels.as.data, sizeof own);
    for (size_t i = 0; answer->is_first && i < sizeof own; i++)
        sum += own[i];
    return own[0] == 40 && (!answer->is_first || sum == 244194);
}

static void put_history(const struct shop *shop, nearcall_client *client)
{
    nearcall_put_array(client, 2);
    nearcall_put_packed(client, NEARCALL_ELEMENT_FLOAT64, shop->history, HISTORY_DAYS);
    nearcall_put_int(client, AHEAD_DAYS);
}

static double take_double(struct answer *answer, const char *name)
{
    take_name(answer, name);
    return take(answer, NEARCALL_FLOAT).as.real;
}

static void take_doubles(struct answer *answer, const char *name, double *to)
{
    size_t count = 0;

    take_name(answer, name);
    if (!answer->failed &&
        (nearcall_read_numbers(&answer->rest, NEARCALL_ELEMENT_FLOAT64, to, AHEAD_DAYS, &count) != NEARCALL_OK || count != AHEAD_DAYS))
        answer->failed = 1;
}

static int is_near(double number, double expected) { return number - expected < 1e-6 && expected - number < 1e-6; }

static int is_outlook(struct answer *answer)
{
    double level, trend, expected[AHEAD_DAYS], least[AHEAD_DAYS], most[AHEAD_DAYS];

    take(answer, NEARCALL_MAP);
    level = take_double(answer, "level");
    trend = take_double(answer, "trend");
    take_doubles(answer, "expected", expected);
    take_doubles(answer, "least", least);
    take_doubles(answer, "most", most);
    return !answer->failed && is_near(level + trend, 127.538046) && is_near(expected[0], level + trend) &&
           is_near(least[0], 73.607846) && is_near(most[AHEAD_DAYS - 1], 417.112960);
}

static const struct errand errands[] = {
    {"app-price", "price_order", NEARCALL_CODEC_MSGPACK, put_order, is_quote},
    {"app-search", "search", NEARCALL_CODEC_MSGPACK, put_search, is_found},
    {"app-session", "visit", NEARCALL_CODEC_MSGPACK, put_session, is_session},
    {"app-events", "summarise", NEARCALL_CODEC_MSGPACK, put_events, is_summary},
    {"app-thumbnail", "thumbnail", NEARCALL_CODEC_MSGPACK, put_picture, is_thumbnail},
    {"app-forecast", "forecast", NEARCALL_CODEC_PACKED, put_history, is_outlook},
    {0}};

static int complain(const struct shop *shop)
{
    fprintf(stderr, "caller: %s: %s\n", shop->errand->function, nearcall_error_message(shop->client));
    return -1;
}

static int call_and_look(struct shop *shop, int is_first)
{
    const struct errand *errand = shop->errand;
    int r = nearcall_request(shop->client, shop->function, errand->codec);

    if (r == NEARCALL_OK) {
        errand->put(shop, shop->client);
        r = nearcall_request_call(shop->client, 0, &shop->reply);
    }
    if (r != NEARCALL_OK)
        return complain(shop);
    struct answer answer = {.rest = {shop->reply.data, shop->reply.data + shop->reply.bytes}, .is_first = is_first};
    if (errand->is_right(&answer) && !answer.failed && answer.rest.next == answer.rest.end)
        return 0;
    fprintf(stderr, "caller: %s answered what it never does\n", errand->function);
    return -1;
}

static int call(void *state) { return call_and_look(state, 0); }

static int open_shop(const struct subject *subject, void *state, const char *address, size_t payload_bytes)
{
    struct shop *shop = state;

    (void)payload_bytes;
    for (shop->errand = errands; strcmp(shop->errand->mode, subject->name) != 0;)
        shop->errand++;
    shop->pixels = subject_payload(PICTURE_BYTES);
    if (shop->pixels == NULL)
        return -1;
    for (int i = 0; i < HISTORY_DAYS; i++)
        shop->history[i] = 100.25 + i * 37 % 50;
    if (nearcall_open(&shop->client, address, NULL) != NEARCALL_OK ||
        nearcall_find(shop->client, shop->errand->function, strlen(shop->errand->function), 0, &shop->function) != NEARCALL_OK)
        return complain(shop);
    return call_and_look(shop, 1) == 0 ? reach_memory(shop->client, call, shop) : -1;
}

static int transport(const void *state)
{
    const struct shop *shop = state;

    return transport_of(shop->client);
}

#define SHOP(mode) .name = mode, .state_bytes = sizeof(struct shop), .open = open_shop, .call = call, .transport = transport

const struct subject shop_subjects[] = {{SHOP("app-price")},  {SHOP("app-search")},    {SHOP("app-session")},
                                        {SHOP("app-events")}, {SHOP("app-thumbnail")}, {SHOP("app-forecast")}, {0}};
