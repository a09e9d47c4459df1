#include "calls/calls.h"
