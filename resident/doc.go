// Package resident keeps a program ready between its runs, so that running it again
// costs microseconds and not its start.
//
//	func main() {
//		resident.Main(resident.Options{}, func(ctx context.Context, inv *resident.Invocation) int {
//			fmt.Println("hello from", inv.Dir)
//			return 0
//		})
//	}
//
// The program runs as before. Started by nearcall-run (or a link of its name to
// that) it is asked to run by its resident, a process of this program that the first
// run has started, with the caller's arguments, environment, directory, umask,
// streams, terminal and signals. When anything is wrong it runs plainly. On systems
// other than Linux it always does.
//
// What runs share, the Mode says: nothing in a Pool, which any program can use;
// a process, one after another (Serial); a process at the same time (Concurrent).
//
// A resident leaves when its program's file has changed, when nothing ran for long,
// and when it is told to. The command nearcall resident lists, shows and stops them.
//
// # Forks and ownership
//
// A program does not fork itself; programs that a run starts have the caller's
// descriptors 0, 1 and 2 (in mode Concurrent: those that it gives them) and nothing
// of the resident's. Processes that a run of a Pool leaves behind stay, as after a
// plain run, and the run is over without them. Those of a Serial run are in the
// process group of the next one and get its signals, unless they were started with a
// group of their own. Files of an Invocation belong to it.
//
// The protocol is spec/resident.md.
package resident
