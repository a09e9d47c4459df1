/* What the kernel allows this process, as far as it tells that to nobody else. */
#ifndef NC_STANDING_H
#define NC_STANDING_H

#include "reason.h"

#include <stdint.h>

/* 0, or -1 with the reason why no resident could be allowed the same. */
int nc_standing_check(struct reason *reason);

/* The same for a resident that this process would start: it would inherit filters
 * of system calls or a tracer, and do for nobody else. */
int nc_standing_check_start(struct reason *reason);

/* The session keyring; 0: it has nothing but its user's own. */
uint32_t nc_standing_keyring(void);

#endif
