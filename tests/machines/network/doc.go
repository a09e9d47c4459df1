// Package network makes hosts out of network namespaces, with a switch between them, and does to
// their links what happens to cables: it cuts them, drops frames without a word, limits the rate,
// and delays frames.
//
// It needs root and Linux. Nothing that it makes has a name outside of this process: namespaces
// exist as long as threads of it are in them, and the processes that it starts end with it. So
// nothing is left, whatever way the program ends, and several programs can do this at a time.
package network
