// Package sharedmemory is both ends of the memory that a busy local connection
// shares: two regions, each written by one side alone, a ring of slots and an
// arena in each, the words by which a side says that it sleeps, and the marks
// that tell how far a call came. The format and its rules are
// spec/transports.md, "Shared memory"; libnearcall/src/transport_sharedmemory.c
// is the caller's end in C.
//
// What the peer writes is read once, copied, and checked; sizes and positions
// are kept in private memory. Nothing here blocks or makes system calls, but
// for making, mapping and populating regions.
//
// A connection's memory is mapped until Close, which its owner calls when no
// goroutine can use it any more. A process that forks without exec is none of
// Go's; the mappings are not inherited.
package sharedmemory
