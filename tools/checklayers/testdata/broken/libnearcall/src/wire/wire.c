#include "wire/wire.h"
