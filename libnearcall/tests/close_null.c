/* NULL where a handle is expected does no harm. */
#include "test.h"

int main(void)
{
    nearcall_reply reply;
    nearcall_close(NULL);
    nearcall_disconnect(NULL);
    nearcall_cancel(NULL, 1);
    nearcall_put_nil(NULL);
    CHECK_INT(nearcall_call(NULL, "one", NULL, 0, 0, &reply), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_connect(NULL, 0), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_process(NULL), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_resume(NULL, 1, &reply), NEARCALL_E_MISUSE);
    CHECK_INT(nearcall_fd(NULL), -1);
    CHECK_INT(nearcall_events(NULL), 0);
    CHECK_INT(nearcall_timeout_ms(NULL), -1);
    CHECK_INT(nearcall_next_finished(NULL), 0);
    CHECK_INT(nearcall_server_process_id(NULL), 0);
    CHECK_INT(nearcall_open(NULL, "unix:/x", NULL), NEARCALL_E_MISUSE);
    CHECK(nearcall_error_message(NULL)[0] != '\0');
    CHECK_INT(nearcall_error_code(NULL), -NEARCALL_E_RESOURCE_EXHAUSTED);
    return 0;
}
