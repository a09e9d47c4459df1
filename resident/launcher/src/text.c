#include "text.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int nc_join_strings(char *into, size_t size, const char *const *strings)
{
    size_t at = 0;
    into[0] = '\0';
    for (; *strings != NULL; strings++) {
        size_t length = strlen(*strings);
        if (length >= size - at)
            return -1;
        memcpy(into + at, *strings, length + 1);
        at += length;
    }
    return 0;
}

const char *nc_number(char buffer[NC_NUMBER_BYTES], unsigned long long number)
{
    size_t at = NC_NUMBER_BYTES - 1;
    buffer[at] = '\0';
    do
        buffer[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    return &buffer[at];
}

enum { PIECES_MAX = 12 };

static struct iovec piece_of(const char *string)
{
    return (struct iovec){(char *)(size_t)string, strlen(string)};
}

void nc_say_strings(const char *const *strings)
{
    struct iovec pieces[PIECES_MAX];
    int count = 0;
    pieces[count++] = piece_of("nearcall-run: ");
    for (; *strings != NULL && count < PIECES_MAX - 1; strings++)
        pieces[count++] = piece_of(*strings);
    pieces[count++] = piece_of("\n");
    /* Nobody is left to tell when this fails. */
    ssize_t written = writev(STDERR_FILENO, pieces, count);
    (void)written;
}
