#include "handle/view.h"

#include <stdlib.h>

void nc_view_release(nearcall_view **view)
{
    nearcall_view *held = *view;
    *view = NULL; /* first: a fork finds it held, or forgotten */
    if (held && atomic_fetch_sub_explicit(&held->holders, 1, memory_order_acq_rel) == 1)
        free(held);
}
