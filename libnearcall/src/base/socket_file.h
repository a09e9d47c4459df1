/* The file of a listening socket: who may use it, its name, and its end. */
#ifndef NC_SOCKET_FILE_H
#define NC_SOCKET_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Tells a file from all others that are there at the same time. Its number may be another's
 * once it is gone, so what it is counts too: a socket. */
struct nc_socket_file {
    dev_t device;
    ino_t inode;
};

/* Sets the mode of the file of a socket that was just bound to path, whatever the name leads
 * to by then. 0 or -errno; -ESTALE: somebody else has replaced it. */
int nc_socket_file_settle(int fd, const char *path, mode_t mode, struct nc_socket_file *ret_file);

/* Gives the socket its public name. Only a socket on which nobody listens is replaced. 0 or
 * -errno; -EEXIST and -EADDRINUSE: *ret_what says what is there. */
int nc_socket_file_publish(const char *temporary, const char *path, const char **ret_what);

/* Removes what a process with the same number has left: a socket, nothing else. */
void nc_socket_file_remove_any(const char *path);

/* Removes the socket unless something else has its name by now. */
void nc_socket_file_remove(const char *path, const struct nc_socket_file *file);

#endif
