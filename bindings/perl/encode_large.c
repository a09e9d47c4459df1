/* Text and bytes that take longer to read and to copy than a call may be late by. They are written
 * in pieces, and between these the time is looked at. */
#include "encode.h"

#define PIECE_BYTES ((STRLEN)1 << 20)
#define HEAD_BYTES 5 /* of MessagePack: a type, and the length in 32 bits */

/* The longest piece that does not end within a character. */
static STRLEN piece_of(const U8 *text, STRLEN bytes, bool wide)
{
    STRLEN piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;

    while (wide && piece < bytes && piece > 0 && UTF8_IS_CONTINUATION(text[piece]))
        piece--;
    return piece ? piece : bytes;
}

/* Room for a value of so many bytes; NULL if the request has none, which it keeps as its failure. */
static U8 *room_for(nearcall_client *client, int head, STRLEN bytes)
{
    U8 *to = nearcall_put_reserve(client, HEAD_BYTES + bytes);

    if (!to)
        return NULL;
    *to++ = (U8)head;
    *to++ = (U8)(bytes >> 24);
    *to++ = (U8)(bytes >> 16);
    *to++ = (U8)(bytes >> 8);
    *to++ = (U8)bytes;
    return to;
}

static U8 *room_for_octets(const ncp_encoder *e, STRLEN bytes)
{
    U8 *to = NULL;

    if (!e->plan->raw)
        return room_for(e->client, 0xC6, bytes);
    return nearcall_put_raw_reserve(e->client, bytes, &to) == NEARCALL_OK ? to : NULL;
}

static void copy(pTHX_ ncp_encoder *e, U8 *to, const U8 *from, STRLEN bytes)
{
    STRLEN piece;

    for (; to && bytes > 0; to += piece, from += piece, bytes -= piece) {
        piece = piece_of(from, bytes, false);
        Copy(from, to, piece, U8);
        ncp_spend(aTHX_ e, piece);
    }
}

/* How many bytes there are of which the highest bit is set. */
static STRLEN count_high(pTHX_ ncp_encoder *e, const U8 *from, STRLEN bytes)
{
    STRLEN high = 0, piece, i;

    for (; bytes > 0; from += piece, bytes -= piece) {
        piece = piece_of(from, bytes, false);
        for (i = 0; i < piece; i++)
            high += from[i] >> 7;
        ncp_spend(aTHX_ e, piece);
    }
    return high;
}

static void widen(pTHX_ ncp_encoder *e, U8 *to, const U8 *from, STRLEN bytes)
{
    STRLEN piece, i;

    for (; to && bytes > 0; from += piece, bytes -= piece) {
        piece = piece_of(from, bytes, false);
        for (i = 0; i < piece; i++) {
            if (from[i] >= 0x80)
                *to++ = (U8)(0xC0 | from[i] >> 6);
            *to++ = from[i] < 0x80 ? from[i] : (U8)(0x80 | (from[i] & 0x3F));
        }
        ncp_spend(aTHX_ e, piece);
    }
}

static bool is_unicode(pTHX_ ncp_encoder *e, const U8 *text, STRLEN bytes)
{
    STRLEN piece;

    for (; bytes > 0; text += piece, bytes -= piece) {
        piece = piece_of(text, bytes, true);
        if (!ncp_is_unicode(text, piece))
            return false;
        ncp_spend(aTHX_ e, piece);
    }
    return true;
}

bool ncp_put_large_characters(pTHX_ ncp_encoder *e, const SV *text)
{
    const U8 *start = (const U8 *)SvPVX_const(text);
    STRLEN bytes = SvCUR(text);
    STRLEN high = 0;

    if (SvUTF8(text)) {
        if (!is_unicode(aTHX_ e, start, bytes))
            return false;
    } else {
        high = count_high(aTHX_ e, start, bytes);
    }
    if (high == 0)
        copy(aTHX_ e, room_for(e->client, 0xDB, bytes), start, bytes);
    else
        widen(aTHX_ e, room_for(e->client, 0xDB, bytes + high), start, bytes);
    return true;
}

/* How many characters text has of which none is above 255. False: it has one that is, or it is malformed, because code
 * that sets a string's flag of UTF-8 need not look at the bytes. */
static bool count_narrow(pTHX_ ncp_encoder *e, const U8 *from, STRLEN bytes, STRLEN *ret_characters)
{
    STRLEN high = 0, total = bytes, piece, i;

    for (; bytes > 0; from += piece, bytes -= piece) {
        piece = piece_of(from, bytes, true);
        for (i = 0; i < piece; i++) {
            if (from[i] < 0x80)
                continue;
            if (!UTF8_IS_DOWNGRADEABLE_START(from[i]) || i + 1 == piece || !UTF8_IS_CONTINUATION(from[i + 1]))
                return false;
            high++;
            i++;
        }
        ncp_spend(aTHX_ e, piece);
    }
    *ret_characters = total - high;
    return true;
}

static void narrow(pTHX_ ncp_encoder *e, U8 *to, const U8 *from, STRLEN bytes)
{
    STRLEN piece, i;

    for (; to && bytes > 0; from += piece, bytes -= piece) {
        piece = piece_of(from, bytes, true);
        for (i = 0; i < piece; i++) {
            if (from[i] >= 0x80) {
                *to++ = (U8)(from[i] << 6 | (from[i + 1] & 0x3F));
                i++;
            } else {
                *to++ = from[i];
            }
        }
        ncp_spend(aTHX_ e, piece);
    }
}

bool ncp_put_large_octets(pTHX_ ncp_encoder *e, const SV *text)
{
    const U8 *start = (const U8 *)SvPVX_const(text);
    STRLEN bytes = SvCUR(text), characters;

    if (!SvUTF8(text)) {
        copy(aTHX_ e, room_for_octets(e, bytes), start, bytes);
        return true;
    }
    if (!count_narrow(aTHX_ e, start, bytes, &characters))
        return false;
    narrow(aTHX_ e, room_for_octets(e, characters), start, bytes);
    return true;
}
