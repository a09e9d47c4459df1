#include <nearcall.h>
#include "wire.h"
