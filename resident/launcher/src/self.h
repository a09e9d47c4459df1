/* How a launcher knows launchers: two of them in PATH under a program's name
 * would run each other for ever. */
#ifndef NC_SELF_H
#define NC_SELF_H

#include <sys/stat.h>

/* A launcher is this one or a copy of any version. What is small and cannot be read
 * may be one. */
enum nc_kind { NC_KIND_PROGRAM, NC_KIND_LAUNCHER, NC_KIND_UNREADABLE };

enum nc_kind nc_kind_of(const char *path, const struct stat *file);

/* The file is that of this process. */
int nc_is_this(const struct stat *file);

#endif
