/* Runs a fuzz target over the files named, for compilers without libFuzzer and to
 * look at one input. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

static void run(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    uint8_t *data = malloc(1 << 24);
    if (!data)
        exit(1);
    size_t bytes = fread(data, 1, 1 << 24, file);
    fclose(file);
    uint8_t *exact = malloc(bytes ? bytes : 1); /* so that reading beyond it is seen */
    if (!exact)
        exit(1);
    for (size_t i = 0; i < bytes; i++)
        exact[i] = data[i];
    LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
    free(data);
}

int main(int count, char **paths)
{
    for (int i = 1; i < count; i++)
        run(paths[i]);
    printf("%d inputs\n", count - 1);
    return 0;
}
