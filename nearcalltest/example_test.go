package nearcalltest_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/nearcalltest"
	"github.com/nearcall/nearcall/server"
)

// t stands for the parameter of a test.
var t *testing.T

func ExampleClient() {
	c := nearcalltest.Client(t, func(s *server.Server) error {
		return s.Register("add", func(a, b int64) int64 { return a + b })
	})
	if sum, err := client.Call[int64](context.Background(), c, "add", 3, 4); sum != 7 || err != nil {
		t.Errorf("add returned %d, %v", sum, err)
	}
}

// Programs in other languages are given the address.
func ExampleServe() {
	address := nearcalltest.Serve(t, func(s *server.Server) error {
		return s.Register("add", func(a, b int64) int64 { return a + b })
	})
	if text, err := exec.Command("python3", "caller.py", address).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}
