/* From bytes to values, within bounds and without recursion. The interface is nearcall_read() and
 * nearcall_skip() of nearcall_values.h; values are written straight into a request or a writer (request/values.h).
 * May include: base, wire. */
#ifndef NC_MSGPACK_H
#define NC_MSGPACK_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>

#include "nearcall.h"

/* The size of an element NEARCALL_ELEMENT_...; 0: there is no such type. */
size_t nc_element_bytes(int element);

/* Makes an extension of the type of a packed list that list. 0 or NEARCALL_E_INVALID_ARGUMENT. */
int nc_packed_head(nearcall_value *value);

/* Whether this machine has the byte order of a block. */
static inline bool nc_is_little_endian(void)
{
    return __BYTE_ORDER == __LITTLE_ENDIAN;
}

#endif
