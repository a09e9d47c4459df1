/* What the residents of a user take. */
#ifndef NC_FOOTPRINT_H
#define NC_FOOTPRINT_H

#include "place.h"

struct footprint {
    unsigned residents; /* that listen */
    unsigned long long memory_kib; /* of them and of their children, what is shared counted once */
};

/* Of all whose sockets are in the place's directory. What cannot be looked into takes nothing. */
void nc_footprint(const struct place *place, struct footprint *footprint);

#endif
