/* The C caller of the benchmarks' own groups: its modes. */
#include "caller.h"

int main(int argc, char **argv)
{
    static const struct subject *const lists[] = {floor_subjects, simple_subjects, nearcall_subjects, shop_subjects,
                                                  http_subjects,  run_subjects,    NULL};

    return caller_main(argc, argv, lists);
}
