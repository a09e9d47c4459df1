/* Requests and frames of residents, as spec/resident.md has them. */
#ifndef NC_RESIDENT_REQUEST_H
#define NC_RESIDENT_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#define NC_RESIDENT_HEADER_BYTES 48
#define NC_RESIDENT_FRAME_BYTES 16
#define NC_RESIDENT_FIRST_BYTE 0x8B

/* Standard input, output and error, and the directory. */
#define NC_RESIDENT_FDS 4

enum { NC_RESIDENT_NO_REQUEST = -1, NC_RESIDENT_OTHER_VERSION = -2 };

enum nc_resident_kind { NC_RESIDENT_RUN = 1, NC_RESIDENT_STATUS = 2, NC_RESIDENT_STOP = 3 };

enum nc_resident_frame {
    NC_RESIDENT_RUNNING = 1,
    NC_RESIDENT_EXITED = 2,
    NC_RESIDENT_KILLED = 3,
    NC_RESIDENT_PLAINLY = 4,
    NC_RESIDENT_ENDING = 5,
    NC_RESIDENT_REPORT = 7
};

struct nc_resident_request {
    uint32_t bytes; /* with the header */
    uint16_t kind;
    uint32_t umask;
    uint16_t rows;
    uint16_t columns;
    uint32_t arguments_count;
    uint32_t environment_count;
    uint32_t keyring; /* the session's; 0: nothing but the user's own */
    /* From the body: */
    const char *directory;
    char **arguments; /* one allocation with environment; both end with NULL */
    char **environment;
};

/* 0, or why not: NC_RESIDENT_NO_REQUEST, or NC_RESIDENT_OTHER_VERSION, which is to be
 * answered PLAINLY. */
int nc_resident_header_decode(struct nc_resident_request *request, const uint8_t *header,
                              const char **ret_fault);

/* Points into the body, which must outlive the request and is not changed. 0; -1: it is
 * not as the header says; -2: no memory. */
int nc_resident_body_split(struct nc_resident_request *request, char *body, const char **ret_fault);

void nc_resident_request_free(struct nc_resident_request *request);

/* Writes a frame without waiting; 0, or -1 with errno. text may be NULL. */
int nc_resident_send_frame(int fd, enum nc_resident_frame type, uint32_t value, uint32_t second,
                           const char *text);

#endif
