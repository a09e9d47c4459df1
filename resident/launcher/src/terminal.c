#include "terminal.h"

#include <string.h>
#include <unistd.h>

void nc_terminal_remember(struct terminal *terminal)
{
    memset(terminal, 0, sizeof(*terminal));
    terminal->fd = -1;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (tcgetattr(fd, &terminal->modes) != 0)
            continue;
        terminal->fd = fd;
        terminal->stopped = terminal->modes;
        ioctl(fd, TIOCGWINSZ, &terminal->size);
        return;
    }
}

int nc_terminal_is_behind(const struct terminal *terminal)
{
    if (terminal->fd != STDIN_FILENO)
        return 0;
    /* No answer: it is not the terminal of this session, which has no jobs there. */
    pid_t before = tcgetpgrp(terminal->fd);
    return before > 0 && before != getpgrp();
}

/* A job that has not got the terminal would be stopped for setting its modes. */
static int has_terminal(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

static void set(const struct terminal *terminal, const struct termios *modes)
{
    tcsetattr(terminal->fd, TCSADRAIN, modes);
}

void nc_terminal_restore(const struct terminal *terminal)
{
    struct termios now;
    if (has_terminal(terminal) && tcgetattr(terminal->fd, &now) == 0 &&
        memcmp(&now, &terminal->modes, sizeof(now)) != 0)
        set(terminal, &terminal->modes);
}

void nc_terminal_leave(struct terminal *terminal)
{
    if (!has_terminal(terminal) || tcgetattr(terminal->fd, &terminal->stopped) != 0)
        return;
    if (memcmp(&terminal->stopped, &terminal->modes, sizeof(terminal->modes)) != 0)
        set(terminal, &terminal->modes);
}

void nc_terminal_return(const struct terminal *terminal)
{
    if (has_terminal(terminal) && memcmp(&terminal->stopped, &terminal->modes, sizeof(terminal->modes)) != 0)
        set(terminal, &terminal->stopped);
}

unsigned nc_terminal_size(const struct terminal *terminal)
{
    struct winsize size;
    if (terminal->fd < 0 || ioctl(terminal->fd, TIOCGWINSZ, &size) != 0)
        return 0;
    return (unsigned)size.ws_row << 16 | size.ws_col;
}
