package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A peer that was not built, one whose program is not there, and one that does not
// start are rows that say why; the others of their group are measured.
func TestPeersThatAreNotThereAreFailedRows(t *testing.T) {
	here := tools{root: t.TempDir()}
	folder := here.built("peers")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"nng.failed": "gcc says\nno nng.h\n", "grpc": "#!/bin/sh\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	group := here.peersCalling(smallBytes, 1)
	t.Setenv(asCaller, "1")
	group.rows = append(group.rows, fakeRow(t, "fake", ""))
	rows, err := here.runGroup(t.Context(), group, t.TempDir(), pace{}, newProgress(discard(t), time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for row, why := range map[string]string{
		"peer-nng-64-1": "cannot be built: no nng.h", "peer-netrpc-64-1": "is not there", "peer-grpc-64-1": "did not get ready",
		"fake": "",
	} {
		measured, err := find(rows, row, smallBytes)
		if err != nil {
			t.Fatal(err)
		}
		if failed := measured.reduced().Failed; !strings.Contains(failed, why) || (why == "") != (failed == "") {
			t.Errorf("%s: failed with %q, wanted %q", row, failed, why)
		}
	}
}

// A quick run has the light peers of one group, and Nearcall beside them.
func TestQuickRunsHaveLightPeers(t *testing.T) {
	names := map[string]bool{}
	for _, group := range (tools{root: t.TempDir()}).peerGroups() {
		for _, row := range group.inQuick().rows {
			if group.name != "peers-64-1" {
				t.Errorf("%s has %s", group.name, row.name)
			}
			names[row.name] = true
		}
	}
	if !names["peer-nearcall-go-shm-64-1"] || !names["peer-grpc-64-1"] || names["peer-python-grpc-64-1"] {
		t.Errorf("a quick run has %v", names)
	}
}
