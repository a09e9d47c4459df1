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
	// Name is what the giver calls it: a route, a listener's name.
	Name string
	// Message is whatever the two programs agreed on.
	Message []byte
	// Prefix is what was read of a connection already; its next owner reads it first.
	Prefix []byte
	// Local and Remote are the connection's addresses where the giver knows them
	// better than the kernel; nil: the socket's own.
	Local, Remote net.Addr
}

func (m *Meta) frame(kind frame.Kind) frame.Frame {
	return frame.Frame{Type: frame.Give, Kind: kind, Name: m.Name, Local: addressText(m.Local),
		Remote: addressText(m.Remote), Message: m.Message, Prefix: m.Prefix}
}

func metaOf(f *frame.Frame) Meta {
	message := f.Message
	if len(f.Prefix) > 0 {
		message = bytes.Clone(message) // it stays longer than the prefix, whose memory it shares
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

// parseAddress returns nil for no address.
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

// An otherAddress is one that package net has no type for.
type otherAddress struct{ network, text string }

func (a otherAddress) Network() string { return a.network }
func (a otherAddress) String() string  { return a.text }
