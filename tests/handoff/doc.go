// Package handoff tests that every connection has one owner, whatever is killed,
// stopped or full at the time: a giver passes on what it accepts, receivers answer
// it, and ledgers that outlive them say who took what.
package handoff
