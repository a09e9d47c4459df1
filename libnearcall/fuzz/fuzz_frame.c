/* A frame header and its extensions, as either side's receiver sees them. What is
 * accepted must lie within its limits, and decoding must be the reverse of encoding. */
#include <stdlib.h>
#include <string.h>

#include "base/limits_gen.h"
#include "fuzz.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t back[NC_FRAME_HEADER_BYTES];
    struct nc_frame frame;
    struct nc_fault fault = {0};
    if (bytes < 1 + NC_FRAME_HEADER_BYTES)
        return 0;
    enum nc_sender sender = data[0] & 1 ? NC_FROM_CALLER : NC_FROM_SERVER;
    nc_frame_decode(&frame, data + 1);
    nc_frame_encode(back, &frame);
    FUZZ_CHECK(memcmp(back, data + 1, sizeof(back)) == 0);
    if (nc_frame_check(&frame, sender, data[0] & 2 ? NC_FEATURE_SHARED_MEMORY : 0, NC_FRAME_BYTES_MAX, &fault) < 0) {
        FUZZ_CHECK(fault.code > 0 && fault.field && fault.allowed && fault.subject);
        return 0;
    }
    FUZZ_CHECK(frame.length <= NC_FRAME_BYTES_MAX && frame.extension_bytes <= frame.length &&
               frame.extension_bytes <= NC_EXTENSION_BYTES_MAX);
    const uint8_t *extensions = data + 1 + NC_FRAME_HEADER_BYTES;
    size_t extension_bytes = bytes - 1 - NC_FRAME_HEADER_BYTES;
    if (nc_extensions_check(extensions, extension_bytes, NC_FEATURE_STORES, "frame", &fault) < 0)
        return 0;
    struct nc_extension extension;
    size_t offset = 0, sum = 0;
    while (nc_extension_next(extensions, extension_bytes, &offset, &extension)) {
        for (size_t i = 0; i < extension.bytes; i++)
            sum += extension.data[i];
        FUZZ_CHECK(offset <= extension_bytes);
    }
    FUZZ_CHECK(offset == extension_bytes && sum <= 255 * extension_bytes);
    return 0;
}
