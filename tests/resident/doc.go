// Package resident tests resident commands as their users meet them: a real launcher,
// real programs in Go, Perl and Python in every way to run, from shells, on terminals,
// and with residents killed, replaced and stopped while they are used.
package resident
