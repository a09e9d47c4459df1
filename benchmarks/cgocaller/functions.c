#include "functions.h"

#include <string.h>

enum { BLOCK_BYTES = 64, LENGTH_OFFSET = 56, ROUNDS = 64, WORDS = 4 };

void empty(void)
{
}

int has_called(void)
{
    static __thread int called;
    int before = called;

    called = 1;
    return before;
}

int64_t one(void)
{
    return 1;
}

int64_t ack(int64_t m, int64_t n)
{
    if (m == 0)
        return n + 1;
    return ack(m - 1, n == 0 ? 1 : ack(m, n - 1));
}

/* RFC 1321: the integer part of 2^32 * |sin(i + 1)|. */
static const uint32_t sines[ROUNDS] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

/* By the round's quarter and its place in four. */
static const uint8_t shifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static uint32_t mixed(int quarter, uint32_t b, uint32_t c, uint32_t d)
{
    switch (quarter) {
    case 0:
        return (b & c) | (~b & d);
    case 1:
        return (d & b) | (~d & c);
    case 2:
        return b ^ c ^ d;
    default:
        return c ^ (b | ~d);
    }
}

static void digest_block(const uint8_t *block, uint32_t *state)
{
    static const int steps[4][2] = {{1, 0}, {5, 1}, {3, 5}, {7, 0}}; /* word = round * step + offset */
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];

    for (int i = 0; i < ROUNDS; i++) {
        int quarter = i / 16;
        int shift = shifts[quarter][i % 4];
        uint32_t word, sum;

        memcpy(&word, block + 4 * ((i * steps[quarter][0] + steps[quarter][1]) % 16), sizeof word);
        sum = a + mixed(quarter, b, c, d) + sines[i] + word;
        a = d;
        d = c;
        c = b;
        b += sum << shift | sum >> (32 - shift);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void md5(const char *text, size_t bytes, char *hex)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t state[WORDS] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint8_t block[BLOCK_BYTES] = {0};
    uint64_t bits = (uint64_t)bytes * 8;

    memcpy(block, text, bytes);
    block[bytes] = 0x80;
    memcpy(block + LENGTH_OFFSET, &bits, sizeof bits);
    digest_block(block, state);
    for (int i = 0; i < MD5_HEX_BYTES; i++) {
        uint32_t byte = state[i / 8] >> (i % 8 / 2 * 8) & 0xff;

        hex[i] = digits[i % 2 == 0 ? byte >> 4 : byte & 15];
    }
}
