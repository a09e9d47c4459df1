/* The C caller of the benchmarks' own groups: its modes. */
#include "caller.h"

int main(int argc, char **argv)
{
    static const struct subject *const subjects[] = {
        &subject_bare, &subject_spin, &subject_memcpy, &subject_simple, &subject_simple_reconnect,
        &subject_raw, &subject_typed, &subject_pipelined, &subject_cgo, &subject_http, &subject_http_second,
        &subject_http_kept, &subject_run, &subject_goroutine,
        &subject_child_raw, &subject_child_goroutine, &subject_one, &subject_ack, &subject_md5};

    return caller_main(argc, argv, subjects, sizeof subjects / sizeof subjects[0]);
}
