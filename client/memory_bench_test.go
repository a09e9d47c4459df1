package client_test

import (
	"context"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/spin"
)

// BenchmarkLoneEcho calls a server in a process of its own.
func BenchmarkLoneEcho(b *testing.B) {
	for name, option := range map[string]client.Option{"memory": client.WithSpin(spin.Auto),
		"memory, not spinning": client.WithSpin(spin.Off), "socket": client.WithoutSharedMemory()} {
		b.Run(name, func(b *testing.B) {
			c, err := client.New(startServer(b).address, option)
			must(b, err)
			defer c.Close()
			payload, reply := make([]byte, 64), make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallRaw(context.Background(), "echo", payload, reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTyped is for calls whose types are compared with the function's: those
// of a fixed function, and those that are seen when the call is made.
func BenchmarkTyped(b *testing.B) {
	c, err := client.New(startServer(b).address)
	must(b, err)
	defer c.Close()
	ctx := context.Background()
	add := client.Func2[float64, float64, float64](c, "add")
	sum, x, y := new(float64), any(1.5), any(2.5)
	for name, call := range map[string]func() error{
		"Func2": func() error { _, err := add(ctx, 1.5, 2.5); return err },
		"Call":  func() error { return c.Call(ctx, "add", sum, x, y) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSharedEcho is the same for 64 goroutines that share a connection.
func BenchmarkSharedEcho(b *testing.B) {
	for name, option := range map[string]client.Option{"memory": client.WithSpin(spin.Auto), "socket": client.WithoutSharedMemory()} {
		b.Run(name, func(b *testing.B) {
			c, err := client.New(startServer(b).address, option)
			must(b, err)
			defer c.Close()
			b.SetParallelism(32)
			b.RunParallel(func(each *testing.PB) {
				payload, reply := make([]byte, 64), make([]byte, 0, 64)
				for each.Next() {
					if _, err := c.CallRaw(context.Background(), "echo", payload, reply); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
