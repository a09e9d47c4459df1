#include "demo.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s is false: %s\n", __FILE__, __LINE__, #condition, nearcall_error_message(client)); \
            exit(1); \
        } \
    } while (0)

static bool same(demo_text text, const char *expected)
{
    return text.bytes == strlen(expected) && memcmp(text.data, expected, text.bytes) == 0;
}

static void check_numbers(nearcall_client *client)
{
    int64_t sum, quotient, remainder, number = 6;
    double real;
    const int64_t numbers[] = {1, 2, 3, 4};

    CHECK(demo_ack(client, 2, 3, 0, &sum) == NEARCALL_OK && sum == 9);
    CHECK(demo_add(client, 0.5, 2, 0, &real) == NEARCALL_OK && real == 2.5);
    CHECK(demo_sum(client, numbers, 4, 0, &sum) == NEARCALL_OK && sum == 10);
    CHECK(demo_sum(client, NULL, 0, 0, &sum) == NEARCALL_OK && sum == 0);
    CHECK(demo_divmod(client, 17, 5, 0, &quotient, &remainder) == NEARCALL_OK && quotient == 3 && remainder == 2);
    CHECK(demo_optional_sum(client, 5, NULL, 0, &sum) == NEARCALL_OK && sum == 5);
    CHECK(demo_optional_sum(client, 5, &number, 0, &sum) == NEARCALL_OK && sum == 11);
}

static void check_text(nearcall_client *client)
{
    demo_text text, tags[] = {{"a", 1}, {"b", 1}}, word;
    demo_bytes bytes;
    demo_map_of_string_to_int64 words;
    int64_t count, total = 0;
    demo_Person person = {.name = demo_text_of("Ada"), .age = {true, 36}, .tags = {.items = tags, .count = 2}};
    demo_Person nobody = {.name = {"", 0}};

    CHECK(demo_upper(client, "abc", 3, 0, &text) == NEARCALL_OK && same(text, "ABC"));
    CHECK(demo_echo(client, "\0x", 2, 0, &bytes) == NEARCALL_OK && bytes.bytes == 2 && bytes.data[1] == 'x');
    CHECK(demo_greet(client, &person, 0, &text) == NEARCALL_OK && same(text, "Hello, Ada, 36 [a,b]"));
    CHECK(demo_greet(client, &nobody, 0, &text) == NEARCALL_OK);
    CHECK(demo_word_count(client, "a b a", 5, 0, &words) == NEARCALL_OK && words.count == 2);
    while (demo_next_map_of_string_to_int64(&words, &word, &count) == NEARCALL_OK) {
        CHECK(count == (word.data[0] == 'a' ? 2 : 1));
        total += count;
    }
    CHECK(total == 3);
}

static void check_values(nearcall_client *client)
{
    demo_Point point = {1, 2}, by = {3, 4}, moved;
    demo_time moment = {1000, 5}, later;
    demo_any any = {(const uint8_t *)"\x93\x01\xc0\xa1x", 5}, back;
    demo_list_of_any kinds;
    demo_any kind;

    CHECK(demo_move(client, &point, &by, 0, &moved) == NEARCALL_OK && moved.x == 4 && moved.y == 6);
    CHECK(demo_later(client, moment, 1500000000, 0, &later) == NEARCALL_OK);
    CHECK(later.seconds == 1001 && later.nanoseconds == 500000005);
    CHECK(demo_identity(client, any, 0, &back) == NEARCALL_OK && back.bytes == 5 && memcmp(back.data, any.data, 5) == 0);
    CHECK(demo_kinds(client, true, -8, INT64_MIN, 255, UINT64_MAX, 1.5f, 2.5, "s", 1, "y", 1, 0, &kinds) == NEARCALL_OK);
    CHECK(kinds.count == 9);
    CHECK(demo_next_list_of_any(&kinds, &kind) == NEARCALL_OK && kind.bytes == 1 && kind.data[0] == 0xc3);
}

static void check_failures(nearcall_client *client)
{
    int64_t slept = 7;

    CHECK(demo_fail(client, 5, "no", 2, 0) == NEARCALL_E_NOT_FOUND);
    CHECK(strcmp(nearcall_error_message(client), "") != 0);
    CHECK(demo_sleep(client, 5000, 50, &slept) == NEARCALL_E_DEADLINE_EXCEEDED && slept == 7);
}

int main(int argc, char **argv)
{
    nearcall_client *client;

    if (argc != 2 || nearcall_open(&client, argv[1], NULL) != NEARCALL_OK)
        return 1;
    check_numbers(client);
    check_text(client);
    check_values(client);
    check_failures(client);
    nearcall_close(client);
    puts("ok");
    return 0;
}
