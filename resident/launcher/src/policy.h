/* What the administrator of a machine allows. */
#ifndef NC_POLICY_H
#define NC_POLICY_H

#include "place.h"
#include "reason.h"

/* Whether a resident of this program may be started now. 0, or -1 with the reason: the
 * policy, or a policy that cannot be read or understood. */
int nc_policy_check(const struct place *place, const char *program, struct reason *reason);

#endif
