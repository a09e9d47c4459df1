// Package resident keeps a program ready between its runs, so that a run costs
// microseconds instead of the program's start.
//
//	func main() {
//		resident.Main(resident.Options{}, func(ctx context.Context, inv *resident.Invocation) int {
//			fmt.Println("hello from", inv.Dir)
//			return 0
//		})
//	}
//
// Started in the usual way, the program runs as before; this is called a plain run.
// Started through nearcall-run, the launcher, or by a link with the program's name to
// it, the program is run by its resident: a process of the same program that the first
// run has started. The resident gets the caller's arguments, environment, directory,
// umask, streams, terminal and signals. If anything is wrong, the launcher runs the
// program plainly. On systems other than Linux it always does.
//
// The Mode says what runs share. In a Pool they share nothing, so it suits any program.
// Serial runs share a process one after the other, and Concurrent runs share it at the
// same time.
//
// A resident leaves when the file of its program has changed, when nothing has run for
// a long time, and when it is told to. The command nearcall resident lists residents,
// shows their state, and stops them.
//
// # Forks and ownership
//
// A program does not fork itself. The programs that a run starts have the caller's
// descriptors 0, 1 and 2, or in mode Concurrent those that the run gives them, and none
// of the resident's. Processes that a run of a Pool leaves behind live on, as after a
// plain run, and the run ends without them. Those of a Serial run are in the process
// group of the next run and get its signals, unless they were started in a group of
// their own. The files of an Invocation belong to it.
//
// The protocol is described in spec/resident.md.
package resident
