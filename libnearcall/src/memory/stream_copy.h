/* Copies of so many bytes that no cache holds them: what is written goes past the caches, so that its
 * lines are not read first. That takes two thirds of the time. */
#ifndef NC_STREAM_COPY_H
#define NC_STREAM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

#define NC_STREAM_UNIT 16
#define NC_STREAM_LINE 64
#define NC_STREAM_AHEAD 512

static inline void nc_stream_line(uint8_t *to, const uint8_t *from)
{
    const __m128i *in = (const __m128i *)(const void *)from;
    __m128i *out = (__m128i *)(void *)to;
    _mm_prefetch((const char *)from + NC_STREAM_AHEAD, _MM_HINT_NTA); /* never faults */
    __m128i first = _mm_loadu_si128(in), second = _mm_loadu_si128(in + 1);
    __m128i third = _mm_loadu_si128(in + 2), fourth = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, first);
    _mm_stream_si128(out + 1, second);
    _mm_stream_si128(out + 2, third);
    _mm_stream_si128(out + 3, fourth);
}

static inline void nc_stream_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t head = -(uintptr_t)to & (NC_STREAM_UNIT - 1);
    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    to += head;
    from += head;
    bytes -= head;
    for (; bytes >= NC_STREAM_LINE; bytes -= NC_STREAM_LINE, to += NC_STREAM_LINE, from += NC_STREAM_LINE)
        nc_stream_line(to, from);
    _mm_sfence(); /* before anybody is told that they are there */
    memcpy(to, from, bytes);
}
#else
static inline void nc_stream_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

#endif
