/* Descriptors beyond the standard ones that the caller means the program to have:
 * they are not sent. */
#ifndef NC_INHERITED_H
#define NC_INHERITED_H

/* Why the program has to be run plainly because of them; NULL: it has not. */
const char *nc_inherited(char **arguments);

#endif
