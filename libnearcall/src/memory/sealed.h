/* Files in memory that a peer has sent. */
#ifndef NC_SEALED_H
#define NC_SEALED_H

#include <sys/stat.h>

/* Says why a file must not be mapped, or NULL, and then sets *ret_status. One whose size could change, or whose
 * pages may turn out not to exist, would end the process by a signal. */
const char *nc_memory_file_fault(int fd, struct stat *ret_status);

#endif
