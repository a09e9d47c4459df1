/* Descriptors that others send over local sockets. Whoever closes the last reference to a
 * file may have to wait for it, as for data that a TCP socket lingers for: a peer chooses. */
#ifndef NC_RIGHTS_H
#define NC_RIGHTS_H

/* What the kernel lets one message carry (SCM_MAX_FD). Who receives has room for all of them:
 * the kernel closes what there is no room for. */
#define NC_RIGHTS_MESSAGE_MAX 253

/* Closes a descriptor that came from elsewhere. A socket does not linger: the kernel goes on
 * sending, also for those who share it. A linger time of zero, which resets, stays. */
void nc_rights_close(int fd);

/* Takes the descriptors out of the queue of a stream socket that is about to be closed, since
 * the kernel would close them, and lets no more come. A part of what was unread stays: from it
 * the peer knows what was not read. */
void nc_rights_drain(int fd);

#endif
