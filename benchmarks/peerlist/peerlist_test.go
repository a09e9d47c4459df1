package peerlist_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
)

func TestTheListIsRead(t *testing.T) {
	named := map[string]peerlist.Peer{}
	for _, peer := range peerlist.All() {
		if !slices.Contains([]string{"go", "c", "python"}, peer.Kind) || !slices.Contains([]string{"goroutines", "threads", "processes"}, peer.Callers) {
			t.Errorf("%+v", peer)
		}
		named[peer.Name] = peer
	}
	for _, want := range []peerlist.Peer{
		{Name: "netrpc", Kind: "go", Server: "netrpc", Callers: "goroutines", Quick: true},
		{Name: "godbus", Kind: "go", Server: "godbus", Callers: "goroutines", Quick: true, BytesAtOnceMax: 4 << 20},
		{Name: "goplugin", Kind: "go", Server: "goplugin", Callers: "goroutines", Quick: true, Hosts: true},
		{Name: "nng", Kind: "c", Server: "nng", Callers: "processes"},
		{Name: "python-grpc", Kind: "python", Server: "grpc", Callers: "threads", StartsIn: 500 * time.Millisecond},
	} {
		if got := named[want.Name]; got != want {
			t.Errorf("read %+v, wanted %+v", got, want)
		}
	}
}
