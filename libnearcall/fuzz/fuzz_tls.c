/* What a server of TLS may answer to the first words of a caller, in pieces: whatever it is, the stream fails or asks
 * for more, and says why in words. What follows a handshake is sealed by keys that no input can know. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "transport/tls.h"

#define PIECE_BYTES_MAX 4096

static struct nc_tls *open_once(void)
{
    static struct nc_tls *tls;
    char words[NC_TLS_WORDS_BYTES];
    struct nc_tls_settings settings = {{0}};
    if (!tls)
        FUZZ_CHECK(nc_tls_open(&tls, &settings, words, sizeof(words)) == 0);
    return tls;
}

static void send_all(struct nc_tls_stream *stream)
{
    size_t bytes;
    const void *sealed = nc_tls_sealed(stream, &bytes);
    FUZZ_CHECK(bytes == 0 || sealed);
    nc_tls_sent(stream, bytes);
}

static void check_failure(struct nc_tls_stream *stream)
{
    int code = 0;
    bool retryable;
    uint8_t opened[16];
    const char *words = nc_tls_what_failed(stream, &code, &retryable);
    FUZZ_CHECK(words && *words && code > 0);
    FUZZ_CHECK(nc_tls_take(stream, opened, sizeof(opened)) < 0 && !nc_tls_holds(stream));
}

/* The first byte says how long the pieces are in which the rest arrives. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    size_t piece = 1 + (size_t)data[0] * 16;
    struct nc_tls_stream *stream = nc_tls_stream_new(open_once(), "localhost");
    FUZZ_CHECK(stream != NULL);
    int r = nc_tls_greet(stream);
    FUZZ_CHECK(r == EAGAIN);
    for (size_t at = 1; at < bytes && r == EAGAIN; at += piece) {
        size_t room_bytes, left = bytes - at;
        void *room = nc_tls_room(stream, &room_bytes);
        size_t arrived = left < piece ? left : piece;
        FUZZ_CHECK(arrived <= room_bytes && piece <= PIECE_BYTES_MAX + 1);
        memcpy(room, data + at, arrived);
        nc_tls_arrived(stream, arrived);
        r = nc_tls_greet(stream);
        send_all(stream);
    }
    FUZZ_CHECK(r == EAGAIN || r == EPROTO);
    if (r == EPROTO)
        check_failure(stream);
    nc_tls_stream_free(stream);
    return 0;
}
