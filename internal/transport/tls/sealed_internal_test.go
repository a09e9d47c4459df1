package tls

import (
	"errors"
	"net"
	"testing"
)

// A peer that asks for answers and reads none ends the connection, before they take up much
// memory.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	s := new(sink)
	s.init(ours)
	answer := make([]byte, 100)
	for range 2 * sealedBytesMost / len(answer) {
		_, err := s.Write(answer)
		if len(s.sealed) > sealedBytesMost {
			t.Fatalf("%d bytes are sealed", len(s.sealed))
		}
		if err != nil {
			if !errors.Is(s.writable(), errFlooded) {
				t.Errorf("writable() = %v", s.writable())
			}
			return
		}
	}
	t.Error("the answers have no bound")
}
