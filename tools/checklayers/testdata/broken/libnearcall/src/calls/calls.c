#include "calls.h"
