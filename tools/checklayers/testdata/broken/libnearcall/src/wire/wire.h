/* Bytes.
 * May include: nothing of the library's. */
#include "handle/handle.h"
