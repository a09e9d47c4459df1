/* From bytes to values, within bounds and without recursion. The interface is nearcall_read() and
 * nearcall_skip() of nearcall_values.h; values are written straight into a request or a writer (request/values.h).
 * May include: base, wire. */
#ifndef NC_MSGPACK_H
#define NC_MSGPACK_H

#include "nearcall.h"

#endif
