// Package sharedmemory implements both ends of the memory that the two sides of a busy
// local connection share. It consists of two regions, each of which is written by one
// side only. Each has a ring of slots and an arena; beside these there are the words by
// which a side says that it sleeps, and the marks that tell how far a call came. The
// format and its rules are in spec/transports.md, "Shared memory".
// libnearcall/src/memory is the caller's end in C.
//
// What the peer writes is read once, copied, and checked; sizes and positions are kept
// in private memory. Nothing here blocks or makes system calls, except for making,
// mapping and populating regions.
//
// The memory of a connection is mapped until Close, which its owner calls when no
// goroutine can use it any more. The mappings are not inherited by a fork, and Go
// programs do not fork without exec.
package sharedmemory
