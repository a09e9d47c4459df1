/* How a launcher knows launchers: two of them in PATH under a program's name
 * would run each other for ever. */
#ifndef NC_SELF_H
#define NC_SELF_H

#include <sys/stat.h>

/* The file is this launcher or a copy of any version, as far as it can be read. */
int nc_is_launcher(const char *path, const struct stat *file);

/* The same, and the file may be one because it cannot be read. */
int nc_may_be_launcher(const char *path, const struct stat *file);

#endif
