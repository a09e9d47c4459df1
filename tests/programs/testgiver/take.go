package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nearcall/nearcall/handoff"
)

// takeAll answers every connection with its name and what it reads first, but those
// called "back", which go back to their giver with what was read of them.
func takeAll(address string) error {
	listener, err := handoff.Listen(address)
	if err != nil {
		return err
	}
	fmt.Println("ready", address)
	for {
		c, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go serveTaken(c.(*handoff.Conn))
	}
}

func serveTaken(c *handoff.Conn) {
	first := make([]byte, 512)
	n, _ := c.Read(first)
	if c.Meta().Name == "back" {
		if err := c.HandBack(context.Background(), first[:n]); err == nil {
			return
		}
	}
	_, _ = fmt.Fprintf(c, "%s: %s", c.Meta().Name, first[:n])
	_ = c.Close()
}
