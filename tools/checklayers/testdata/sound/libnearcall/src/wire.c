#include "wire.h"
#include <string.h>
