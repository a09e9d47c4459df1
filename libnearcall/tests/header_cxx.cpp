// The headers in C++, linked against the C library.
#include <nearcall.h>
#include <nearcall_handoff.h>
#include <nearcall_resident.h>
#include <nearcall_generated.h>

int main()
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_client *client = nullptr;
    int r = nearcall_open(&client, "unix:/nowhere", &options);
    nearcall_close(client);
    nearcall_handoff_close(nullptr);
    return r == NEARCALL_OK ? 0 : 1;
}
