package nearcalltest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/nearcalltest"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

func register(s *server.Server) error {
	return s.Register("add", func(a, b int64) int64 { return a + b })
}

func TestClient(t *testing.T) {
	c := nearcalltest.Client(t, register)
	sum, err := client.Call[int64](context.Background(), c, "add", 3, 4)
	if sum != 7 || err != nil {
		t.Fatal(sum, err)
	}
}

func TestServerEndsWithItsTest(t *testing.T) {
	var address string
	t.Run("of it", func(t *testing.T) { address = nearcalltest.Serve(t, register) })
	c, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := client.Call[int64](context.Background(), c, "add", 3, 4); !errors.Is(err, status.Unavailable) {
		t.Fatalf("the server of a test that has ended: %v", err)
	}
}
