/* Calls.
 * May include: handle,
 * wire, nobody. */
#include "handle/handle.h"
