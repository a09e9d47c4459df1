/* How the launcher ends when it does not become the program. */
#ifndef NC_FINISH_H
#define NC_FINISH_H

/* As env(1) and timeout(1) have them. */
enum nc_exit { NC_EXIT_FAILED = 125, NC_EXIT_NOT_EXECUTABLE = 126, NC_EXIT_NOT_FOUND = 127 };

/* Ends by this signal, with its default action and without a core file: the
 * program that the core would be of is another one. Never returns; a signal
 * that ends nobody becomes the exit code that shells have for it. */
_Noreturn void nc_finish_by_signal(int number);

#endif
