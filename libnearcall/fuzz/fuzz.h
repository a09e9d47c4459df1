/* An entry point of libFuzzer's kind; replay.c runs the same over files. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define FUZZ_CHECK(condition)                                                             \
    do {                                                                                  \
        if (!(condition))                                                                 \
            abort();                                                                      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
