/* Whose a descriptor's number is. */
#ifndef NC_DESCRIPTOR_H
#define NC_DESCRIPTOR_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a descriptor's number still means the file that it did. Where the kernel does
 * not tell, for want of memory or in a sandbox, it does as long as the number is open:
 * what is closed behind its owner's back is rarer than what would be left open. */
bool nc_descriptor_is(int fd, dev_t device, ino_t inode);

#endif
