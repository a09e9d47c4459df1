package gateway_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	gateway "github.com/nearcall/nearcall/gateway/nats"
)

// A gateway that cannot start leaves nobody who listens.
func TestNothingListensAfterFailedStart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "g")
	made, err := gateway.New(gateway.Config{Name: "g", Listen: "unix:" + socket, Logger: logger(t, "g"),
		Exports: []gateway.Export{{Name: "demo", Address: "unix:/s?nonsense=1"}}, Engine: gateway.Engine{Embedded: gateway.Embedded{Listen: "127.0.0.1:0"}}})
	must(t, err)
	if err := made.Run(context.Background()); err == nil {
		t.Fatal("it has run")
	}
	if conn, err := net.Dial("unix", socket); err == nil {
		conn.Close()
		t.Error("somebody listens still")
	}
}
