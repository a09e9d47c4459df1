package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
)

// BenchmarkLargeValues counts each byte once on its way there and once on its way back, beside as
// many copies from memory to memory as such a call makes: one into the store of the request, and
// two by the store of the reply.
func BenchmarkLargeValues(b *testing.B) {
	const most, budget = 1 << 30, 8 << 30
	_, address := serveLarge(b, server.WithValueBytesMax(most), server.WithInputBytes(budget, budget), server.WithOutputBytes(budget, budget))
	c, err := client.New(address, client.WithValueBytesMax(most))
	must(b, err)
	defer c.Close()
	for _, size := range []int{16 << 20, 64 << 20, 256 << 20} {
		data, reply := pattern(size, 1), make([]byte, 0, size)
		b.Run(fmt.Sprintf("echo/%d", size), func(b *testing.B) {
			b.SetBytes(2 * int64(size))
			for b.Loop() {
				got, err := c.CallRaw(context.Background(), "echo", data, reply)
				if err != nil || len(got) != size {
					b.Fatalf("%d bytes, %v", len(got), err)
				}
			}
		})
		b.Run(fmt.Sprintf("copies/%d", size), func(b *testing.B) {
			b.SetBytes(2 * int64(size))
			places := [][]byte{data, make([]byte, size), make([]byte, size), reply[:size]}
			for b.Loop() {
				for i := range places[1:] {
					copy(places[i+1], places[i])
				}
			}
		})
	}
}
