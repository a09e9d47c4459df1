/* The listening socket while there is one: whether it is watched, and its end. */
#include <sys/epoll.h>
#include <unistd.h>

#include "base/socket_file.h"
#include "handoff/handoff.h"

/* Watched while there is room for a channel. One of several processes that wait for the
 * same socket is woken. */
void nc_handoff_watch_listening(nearcall_handoff *handoff)
{
    struct nc_handoff_listening *listening = &handoff->listening;
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data = {.ptr = NULL}};
    bool wanted = listening->fd >= 0 && listening->retry_ns == 0 &&
                  handoff->channels_open < handoff->channels_max;
    if (wanted == listening->watched)
        return;
    if (epoll_ctl(handoff->epoll_fd, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listening->fd,
                  &event) == 0)
        listening->watched = wanted;
}

/* The path goes first, so that nobody connects to what is not accepted any more. Other
 * processes may have copies of the socket: the watch would outlive the descriptor. */
void nc_handoff_stop_listening(nearcall_handoff *handoff)
{
    struct nc_handoff_listening *listening = &handoff->listening;
    if (listening->published && listening->owner == getpid())
        nc_socket_file_remove(listening->address.path, &listening->file);
    listening->published = false;
    if (listening->watched)
        epoll_ctl(handoff->epoll_fd, EPOLL_CTL_DEL, listening->fd, NULL);
    listening->watched = false;
    if (listening->fd >= 0)
        close(listening->fd);
    if (listening->lock_fd >= 0)
        close(listening->lock_fd);
    listening->fd = listening->lock_fd = -1;
    listening->retry_ns = 0;
}
