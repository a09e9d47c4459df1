package handoff

import (
	"bytes"
	"net"
	"net/netip"
	"strings"

	"github.com/nearcall/nearcall/handoff/internal/frame"
)

// A Meta travels with what is given.
type Meta struct {
	// Name is the giver's name for it, such as that of a route or a listener.
	Name string
	// Message is anything that the two programs have agreed on.
	Message []byte
	// Prefix is what was already read from a connection. Its next owner reads it first.
	Prefix []byte
	// Local and Remote are the addresses of the connection if the giver knows them
	// better than the kernel does, or nil.
	Local, Remote net.Addr
}

func (m *Meta) frame(kind frame.Kind) frame.Frame {
	return frame.Frame{Type: frame.Give, Kind: kind, Name: m.Name, Local: addressText(m.Local),
		Remote: addressText(m.Remote), Message: m.Message, Prefix: m.Prefix}
}

func metaOf(f *frame.Frame) Meta {
	message := f.Message
	if len(f.Prefix) > 0 {
		message = bytes.Clone(message) // it outlives the prefix, with which it shares memory
	}
	return Meta{Name: f.Name, Message: message, Prefix: f.Prefix,
		Local: parseAddress(f.Local), Remote: parseAddress(f.Remote)}
}

func addressText(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.Network() + ":" + a.String()
}

// parseAddress returns nil if the text is empty.
func parseAddress(text string) net.Addr {
	if text == "" {
		return nil
	}
	network, rest, _ := strings.Cut(text, ":")
	if network == "unix" {
		return &net.UnixAddr{Net: network, Name: rest}
	}
	if at, err := netip.ParseAddrPort(rest); network == "tcp" && err == nil {
		return net.TCPAddrFromAddrPort(at)
	}
	return otherAddress{network, rest}
}

// An otherAddress is an address for which package net has no type.
type otherAddress struct{ network, text string }

func (a otherAddress) Network() string { return a.network }
func (a otherAddress) String() string  { return a.text }
