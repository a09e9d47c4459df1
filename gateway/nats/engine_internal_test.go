package gateway

import (
	"slices"
	"testing"
)

// Whoever configures a way in the clear to another machine is warned.
func TestEnginesInTheClear(t *testing.T) {
	e := Engine{URLs: []string{"nats://b.example:4222", "nats://u:p@c.example:4222", "tls://d.example:4222", "wss://e.example", "nats://127.0.0.1:4222", "nats://localhost:4222"}}
	if got, want := e.inTheClear(), []string{"nats://b.example:4222", "nats://u:xxxxx@c.example:4222"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	e.TLS.Authorities = "ca.pem"
	if got := e.inTheClear(); got != nil {
		t.Errorf("with files for TLS: %v", got)
	}
}
