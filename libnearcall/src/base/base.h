/* What every other folder stands on, and what knows nothing of calls: buffers, clocks, forks,
 * addresses, descriptors, and the limits and codes that are generated.
 * May include: nothing of the library's. */
#ifndef NC_BASE_H
#define NC_BASE_H

/* A number of limits_gen.h, or of another header, within a message. */
#define NC_TEXT_OF(number) #number
#define NC_TEXT(limit) NC_TEXT_OF(limit)

#endif
