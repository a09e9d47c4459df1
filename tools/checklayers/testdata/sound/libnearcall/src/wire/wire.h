/* Bytes.
 * May include: base. */
#include <stdint.h>

#include "base/base.h"
