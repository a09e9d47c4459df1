/* What all know. May include: calls. */
#include <sys/socket.h>

#include "calls/calls.h"
