/* The program that is to run: which file, with which arguments. */
#ifndef NC_PROGRAM_H
#define NC_PROGRAM_H

#include "reason.h"

#include <limits.h>
#include <sys/stat.h>

struct program {
    const char *name;  /* as the caller said it, which is argument 0; of a link to one that is installed, that one's */
    char **arguments;  /* with argument 0, up to NULL; the process's own */
    const char *path;  /* the file; `found` or `name` */
    struct stat file;  /* what stat says of it, symbolic links followed */
    int searched;      /* PATH was searched */
    int by_link;       /* the launcher was started by the program's name */
    int unreadable;    /* it may be a launcher */
    char found[PATH_MAX];
    char link[PATH_MAX]; /* the launcher that was passed over, or called by its path, or the installed one it leads to; empty: none */
};

enum nc_found { NC_FOUND, NC_FOUND_PLAIN, NC_FOUND_NONE };

/* Finds the program's file. `searched` says that its name has to be looked up
 * in PATH even if it has a slash: by the part after the last one, passing over
 * every copy of the launcher. NC_FOUND_PLAIN: there is a file but it has to be
 * run plainly, for the reason; NC_FOUND_NONE: there is none, errno says why. */
enum nc_found nc_program_find(struct program *program, struct reason *reason);

/* The program's absolute path, as it was said. 0, or -1 with the reason. */
int nc_program_path(const struct program *program, char path[PATH_MAX], struct reason *reason);

/* What 'nearcall resident install' has put beside the link by which the launcher was
 * called: it starts the program as a resident that knows nothing of residents. The path is
 * empty where there is none. 0, or -1 with the reason: nobody may start it. */
int nc_program_starter(const struct program *program, char path[PATH_MAX], struct reason *reason);

/* The part of a path after its last slash. */
const char *nc_last_part(const char *path);

#endif
