package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
)

// A peer that was not built, one whose program is not there, and one that does not
// start are rows that say why; the others of their group are measured.
func TestPeersThatAreNotThereAreFailedRows(t *testing.T) {
	here := tools{root: t.TempDir()}
	folder := here.built("peers")
	check(t, os.MkdirAll(folder, 0o700))
	for file, text := range map[string]string{"nng.failed": "gcc says\nno nng.h\n", "grpc": "#!/bin/sh\nexit 1\n"} {
		check(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o700))
	}
	group := namedIn(here.groups(), "peers-64-1")[0]
	t.Setenv(asCaller, "1")
	group.rows = append(group.rows, fakeRow(t, "fake", ""))
	rows, err := here.runGroup(t.Context(), group, t.TempDir(), pace{}, newProgress(discard(t), time.Second))
	check(t, err)
	for row, why := range map[string]string{
		"peer-nng-64-1": "cannot be built: no nng.h", "peer-netrpc-64-1": "is not there", "peer-grpc-64-1": "did not get ready",
		"fake": "",
	} {
		measured, err := find(rows, row, smallBytes)
		check(t, err)
		if failed := measured.reduced().Failed; !strings.Contains(failed, why) || (why == "") != (failed == "") {
			t.Errorf("%s: failed with %q, wanted %q", row, failed, why)
		}
	}
}

// What a row with figures is about is described, or it is a failure that nothing tells.
func TestPeersWithFiguresAreDescribed(t *testing.T) {
	here := tools{root: t.TempDir()}
	folder := here.built("peers")
	check(t, os.MkdirAll(folder, 0o700))
	tells := func(version string) string {
		return "#!/bin/sh\necho '{\"version\":\"" + version + "\",\"connections\":\"one each\"}'\n"
	}
	for file, text := range map[string]string{"nats": tells("nats.go 1"), "natsserver": tells("nats-server 2"), "grpc": "#!/bin/sh\necho no >&2; exit 1\n"} {
		check(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o700))
	}
	rows := []measuredRow{
		{plan: rowPlan{name: "other"}}, {plan: rowPlan{peer: "nearcall-go-shm"}}, {plan: rowPlan{peer: "nats"}}, {plan: rowPlan{peer: "nats"}},
		{plan: rowPlan{peer: "drpc"}, failed: "it died"}, {plan: rowPlan{peer: "grpc"}},
	}
	described, failed := here.describePeers(rows, "v9")
	if len(described) != 2 || described[0].Name != "nearcall-go-shm" || described[0].Version != "v9" ||
		described[1].Name != "nats" || described[1].Version != "nats.go 1, nats-server 2" || described[1].Connections != "one each" {
		t.Errorf("described are %+v", described)
	}
	if len(failed) != 1 || !failed[0].Failed || !strings.Contains(failed[0].Group, "grpc") || !strings.Contains(failed[0].Why, "no") {
		t.Errorf("failed are %+v", failed)
	}
}

// Whatever stands beside the peers says what it is.
func TestEveryRowOfPeersCanBeDescribed(t *testing.T) {
	known := map[string]bool{}
	for _, peer := range describeBeside("v9") {
		if peer.Name == "" || peer.Version == "" || peer.Language == "" || peer.Connections == "" || peer.Configuration == "" || peer.Documentation == "" {
			t.Errorf("%+v", peer)
		}
		known[peer.Name] = true
		// The callers in Go that have a client each are given a deadline of their own.
		if own := strings.Contains(peer.Configuration, "a deadline of one minute"); own != (peer.Name == "nearcall-go-shm-each") {
			t.Errorf("%s has a deadline of its own: %v", peer.Name, own)
		}
	}
	for _, peer := range peerlist.All() {
		known[peer.Name] = true
	}
	for _, group := range groupsNamed("peers-") {
		for _, row := range group.rows {
			if !known[row.peer] {
				t.Errorf("%s of %s is of nobody that is known: %q", row.name, group.name, row.peer)
			}
		}
	}
}
