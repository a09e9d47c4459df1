package client_test

import (
	"context"
	"testing"

	"github.com/nearcall/nearcall/client"
)

// BenchmarkLoneEcho calls a server in a process of its own.
func BenchmarkLoneEcho(b *testing.B) {
	for name, option := range map[string]client.Option{"memory": client.WithSpin(client.SpinAuto),
		"memory, not spinning": client.WithSpin(client.SpinOff), "socket": client.WithoutSharedMemory()} {
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

// BenchmarkSharedEcho is the same for 64 goroutines that share a connection.
func BenchmarkSharedEcho(b *testing.B) {
	for name, option := range map[string]client.Option{"memory": client.WithSpin(client.SpinAuto), "socket": client.WithoutSharedMemory()} {
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
