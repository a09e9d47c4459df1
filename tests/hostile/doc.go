// Package hostile tests that a caller which breaks every rule of shared memory
// harms itself alone: the server lives, loses nothing, and nobody ever sees a
// byte of another's.
package hostile
