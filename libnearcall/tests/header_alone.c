/* The headers need nothing before them, in C99 and C11, and may come twice. */
#include <nearcall_calls.h>
#include <nearcall_calls.h>
#include <nearcall_hooks.h>
#include <nearcall_hooks.h>
#include <nearcall_schema.h>
#include <nearcall_schema.h>
#include <nearcall_signals.h>
#include <nearcall_signals.h>
#include <nearcall_writer.h>
#include <nearcall_writer.h>
#include <nearcall_values.h>
#include <nearcall_values.h>
#include <nearcall_handoff.h>
#include <nearcall_handoff.h>
#include <nearcall_resident.h>
#include <nearcall_resident.h>
#include <nearcall_generated.h>
#include <nearcall_generated.h>
#include <nearcall.h>
#include <nearcall.h>

int main(void)
{
    nearcall_options options = NEARCALL_OPTIONS_INIT;
    nearcall_call_options call_options = NEARCALL_CALL_OPTIONS_INIT;
    nearcall_handoff_options handoff_options = NEARCALL_HANDOFF_OPTIONS_INIT;
    nearcall_resident_options resident_options = NEARCALL_RESIDENT_OPTIONS_INIT;
    nearcall_reader reader = {0, 0};
    nearcall_value value;
    if (options.struct_size != sizeof(options) || call_options.struct_size != sizeof(call_options) ||
        handoff_options.struct_size != sizeof(handoff_options) ||
        resident_options.struct_size != sizeof(resident_options))
        return 1;
    return nearcall_read(&reader, &value) == NEARCALL_E_OUT_OF_RANGE ? 0 : 1;
}
