//go:build unix

package handoff_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/handoff"
)

// TestOptionsOutOfRangeAreRefused: by all that takes options.
func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for name, option := range map[string]handoff.Option{
		"WithWindow":                 handoff.WithWindow(0),
		"WithPrefixLimit":            handoff.WithPrefixLimit(-1),
		"WithMessageLimit":           handoff.WithMessageLimit(1 << 30),
		"WithChannelsPerUser":        handoff.WithChannelsPerUser(1 << 30),
		"WithBareDescriptorsPerUser": handoff.WithBareDescriptorsPerUser(0),
	} {
		address := "unix:" + t.TempDir() + "/s"
		_, listening := handoff.Listen(address, option)
		_, dialling := handoff.Dial(context.Background(), address, option)
		_, taking := handoff.Takeover(context.Background(), address, option)
		socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/on", Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		listener := handoff.ListenOn(socket, option)
		_, accepting := listener.Accept()
		listener.Close()
		for what, err := range map[string]error{"Listen": listening, "Dial": dialling, "Takeover": taking, "ListenOn": accepting} {
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "out of range") {
				t.Errorf("%s with %s: %v, want an error that names the option and the range", what, name, err)
			}
		}
	}
}
