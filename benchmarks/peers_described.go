package main

import (
	"encoding/json"
	"fmt"

	"github.com/nearcall/nearcall/benchmarks/peerlist"
	"github.com/nearcall/nearcall/benchmarks/process"
	"github.com/nearcall/nearcall/benchmarks/result"
)

// describeSeconds are far more than any peer takes to say what it is.
const describeSeconds = "20"

// describePeers returns how those are set up that rows with figures are about, and who
// could not tell.
func (t tools) describePeers(rows []measuredRow, nearcall string) (described []result.Peer, failed []result.LeftOut) {
	known := map[string]result.Peer{}
	for _, peer := range describeBeside(nearcall) {
		known[peer.Name] = peer
	}
	listed := map[string]peerlist.Peer{}
	for _, peer := range peerlist.All() {
		listed[peer.Name] = peer
	}
	seen := map[string]bool{"": true}
	for _, row := range rows {
		name := row.plan.peer
		if row.failed != "" || seen[name] {
			continue
		}
		seen[name] = true
		told, ok := known[name]
		if !ok {
			var err error
			if told, err = t.describe(listed[name]); err != nil {
				failed = append(failed, result.LeftOut{Group: "how the peer " + name + " is set up", Why: err.Error(), Failed: true})
				continue
			}
		}
		described = append(described, told)
	}
	return described, failed
}

// describe lets a peer's programs say what they are: the versions are those of both.
func (t tools) describe(peer peerlist.Peer) (result.Peer, error) {
	told, err := t.toldBy(peer.Name)
	if err != nil || peer.Server == peer.Name {
		told.Name = peer.Name
		return told, err
	}
	server, err := t.toldBy(peer.Server)
	told.Name, told.Version = peer.Name, told.Version+", "+server.Version
	return told, err
}

func (t tools) toldBy(program string) (told result.Peer, err error) {
	text, err := process.Output(nil, "timeout", describeSeconds, t.peerProgram(program), "describe")
	if err == nil {
		err = json.Unmarshal([]byte(text), &told)
	}
	if err == nil && told.Version == "" {
		err = fmt.Errorf("%s describe tells no version", program)
	}
	return told, err
}
