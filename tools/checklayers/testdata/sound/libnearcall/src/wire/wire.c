#include "wire/wire.h"

#include <string.h>

#include "nearcall.h"
