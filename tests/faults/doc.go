// Package faults tests what no single part can show: that promises hold while
// processes are killed and stopped and while system calls fail. Its tests start
// real processes: testserver, and callers in C linked against libnearcall.
package faults
