/* A welcome that arrives in any pieces: the verdict never depends on how much of it
 * is seen at once, and never changes once it is given. */
#include <stdlib.h>

#include "base/limits_gen.h"
#include "fuzz.h"
#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct nc_welcome welcome = {0};
    struct nc_fault fault = {0};
    int verdict = 0;
    for (size_t seen = 0; seen <= bytes; seen++) {
        int r = nc_welcome_decode(&welcome, data, seen, NC_FEATURE_SHARED_CLOCK, &fault);
        FUZZ_CHECK(verdict == 0 || r == verdict);
        FUZZ_CHECK(r == 0 || r == 1 || (r == -1 && fault.field));
        verdict = r;
    }
    FUZZ_CHECK(bytes < NC_HELLO_BYTES_MAX || verdict != 0);
    if (verdict == 1)
        FUZZ_CHECK(welcome.total_bytes <= bytes && welcome.total_bytes <= NC_HELLO_BYTES_MAX &&
                   (welcome.version == 0) == (welcome.status != 0));
    return 0;
}
