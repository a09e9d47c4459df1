#include <nearcall.h>
#include "handle.h"
