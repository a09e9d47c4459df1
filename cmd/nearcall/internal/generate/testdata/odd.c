#include "odd.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s is false: %s\n", __FILE__, __LINE__, #condition, nearcall_error_message(client)); \
            exit(1); \
        } \
    } while (0)

/* A tree goes there and comes back. */
static void check_tree(nearcall_client *client)
{
    odd_Node leaf = {.label = odd_text_of("leaf")}, children[] = {leaf, leaf}, next = {.children = {.items = children, .count = 2}};
    odd_Node root = {.label = odd_text_of("root"), .next = {.value = &next}}, back, inner;
    int64_t depth;

    root.odd = (odd_Odd){.a_field = -5, .class_ = 6, .while_ = 7, .quote_d = {true, {8, 9}}};
    CHECK(odd_tree_depth(client, &root, 0, &depth) == NEARCALL_OK && depth == 3);
    CHECK(odd_tree_same(client, &root, 0, &back) == NEARCALL_OK);
    CHECK(back.odd.a_field == -5 && back.odd.class_ == 6 && back.odd.while_ == 7);
    CHECK(back.odd.quote_d.present && back.odd.quote_d.value.seconds == 8 && back.odd.quote_d.value.nanoseconds == 9);
    CHECK(back.next.present && odd_get_optional_Node(&back.next, &inner) == NEARCALL_OK);
    CHECK(inner.children.count == 2 && !inner.next.present);
    CHECK(odd_next_list_of_Node(&inner.children, &back) == NEARCALL_OK && memcmp(back.label.data, "leaf", 4) == 0);
    CHECK(odd_next_list_of_Node(&inner.children, &back) == NEARCALL_OK);
    CHECK(odd_next_list_of_Node(&inner.children, &back) == NEARCALL_E_OUT_OF_RANGE);
    CHECK(odd_get_optional_Node(&inner.next, &back) == NEARCALL_E_OUT_OF_RANGE);
}

/* What is written through a file that came back is in the one that was sent. */
static void check_files(nearcall_client *client)
{
    odd_file back, many[1];
    odd_list_of_file several = {.items = many, .count = 1}, got;
    odd_optional_file none;
    int ends[2], fd;
    char byte = 0;

    CHECK(pipe(ends) == 0);
    many[0].fd = ends[0];
    CHECK(odd_file_(client, ends[1], &several, NULL, 0, &back, &got, &none) == NEARCALL_OK);
    CHECK(!none.present && got.count == 1);
    fd = nearcall_take_file(client, back.number);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'x');
    CHECK(close(fd) == 0 && close(ends[0]) == 0 && close(ends[1]) == 0);
}

int main(int argc, char **argv)
{
    nearcall_client *client;
    odd_text two;
    odd_list_of_Spot points;
    odd_Spot point, some[] = {{1}, {2}};
    int64_t one;
    bool yes;
    int8_t a, b, c, d, e;

    if (argc != 2 || nearcall_open(&client, argv[1], NULL) != NEARCALL_OK)
        return 1;
    check_tree(client);
    CHECK(odd_new(client, 1, 2, 0, &one, &two, &points) == NEARCALL_OK && one == 1 && two.bytes == 3 && points.count == 1);
    CHECK(odd_next_list_of_Spot(&points, &point) == NEARCALL_OK && point.x == 3);
    CHECK(odd_class(client, "x", 1, some, 2, 0, &yes) == NEARCALL_OK && yes);
    CHECK(odd_text_(client, NULL, NULL, 0, &a, &b, &c, &d, &e) == NEARCALL_OK && a == 1 && e == 5);
    CHECK(odd_it_s(client, 0) == NEARCALL_OK);
    check_files(client);
    nearcall_close(client);
    puts("ok");
    return 0;
}
