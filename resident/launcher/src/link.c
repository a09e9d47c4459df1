#include "link.h"

#include "program.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What the kernel follows. */
enum { LINKS_MAX = 40 };

const char nc_launcher_name[] = "nearcall-run";

int nc_link_starter(const char *link, char path[PATH_MAX])
{
    size_t directory = (size_t)(nc_last_part(link) - link);
    memcpy(path, link, directory);
    return nc_join(path + directory, PATH_MAX - directory, ".nearcall-resident/", link + directory);
}

/* What nobody may look at is there. */
static int is_installed(const char *link)
{
    char path[PATH_MAX];
    if (nc_link_starter(link, path) != 0)
        return 0;
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Goes to where a link leads. 0, or -1 where it is none or its path is too long. */
static int step(char link[PATH_MAX])
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(AT_FDCWD, link, target, sizeof(target) - 1);
    if (length <= 0)
        return -1;
    target[length] = '\0';
    size_t directory = target[0] == '/' ? 0 : (size_t)(nc_last_part(link) - link);
    return nc_join(link + directory, PATH_MAX - directory, target);
}

/* Most links lead to the launcher at once, which costs one call of the system. */
int nc_link_follow(char link[PATH_MAX])
{
    char at[PATH_MAX];
    if (nc_join(at, sizeof(at), link) != 0 || step(at) != 0 ||
        strcmp(nc_last_part(at), nc_launcher_name) == 0 || is_installed(link))
        return 0;
    for (int links = 0; links < LINKS_MAX; links++) {
        if (is_installed(at))
            return nc_join(link, PATH_MAX, at) == 0;
        if (step(at) != 0)
            break;
    }
    return 0;
}
