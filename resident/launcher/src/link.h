/* Links by which the launcher is called, and what 'nearcall resident install' has put beside them. */
#ifndef NC_LINK_H
#define NC_LINK_H

#include <limits.h>

/* The last part of the path that links lead to, and of the launcher's own. */
extern const char nc_launcher_name[];

/* The path of what is installed beside a link, whether it is there or not. 0, or -1 when that
 * is too long. */
int nc_link_starter(const char *link, char path[PATH_MAX]);

/* Makes of a link that leads to another one that of the two, or of more, beside which
 * something is installed. Returns whether it is another link now. */
int nc_link_follow(char link[PATH_MAX]);

#endif
