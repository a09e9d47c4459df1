package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nearcall/nearcall/benchmarks/result"
)

// peersPrefix begins the names of groups in which peers take turns with Nearcall.
const peersPrefix = "peers-"

// peerName is that of a row of a way, with bytes and callers.
var peerName = regexp.MustCompile(`^peer-(.+)-(\d+)-(\d+)$`)

// A peerWay is a way that stands beside others, as the rows name it.
type peerWay struct{ Name, Language, Connections string }

// PeerWays are all of them, in the order of the rows.
func (r run) PeerWays() (all []peerWay) {
	for _, row := range r.Rows {
		parts := peerName.FindStringSubmatch(row.Name)
		if parts == nil || slices.ContainsFunc(all, func(w peerWay) bool { return w.Name == parts[1] }) {
			continue
		}
		told := peerOf(r.Peers, parts[1])
		all = append(all, peerWay{parts[1], told.Language, told.Connections})
	}
	return all
}

// PeerSizes and PeerCallers are what the rows of peers differ in, in ascending order.
func (r run) PeerSizes() []int   { return r.numbersIn(peerName, 2) }
func (r run) PeerCallers() []int { return r.numbersIn(peerName, 3) }

// busyName is that of a row beside so many busy processors, which Busy returns.
var busyName = regexp.MustCompile(`^(?:cgo-first|cgo-first-alone|cgo-later|shm-call)-busy-(\d+)$`)

func (r run) Busy() []int { return r.numbersIn(busyName, 1) }

// numbersIn are those that a part of the names of rows has.
func (r run) numbersIn(name *regexp.Regexp, part int) []int {
	found := map[int]bool{}
	for _, row := range r.Rows {
		if parts := name.FindStringSubmatch(row.Name); parts != nil {
			if n, err := strconv.Atoi(parts[part]); err == nil {
				found[n] = true
			}
		}
	}
	return sortedKeys(found)
}

// peerOf is what was told of a way; nothing where it was not described.
func peerOf(peers []result.Peer, way string) result.Peer {
	if i := slices.IndexFunc(peers, func(p result.Peer) bool { return p.Name == way }); i >= 0 {
		return peers[i]
	}
	return result.Peer{}
}

// peerWords are the parts of the names of Nearcall's own ways.
var peerWords = map[string]string{"nearcall": "Nearcall", "go": "Go", "c": "C", "perl": "Perl", "python": "Python", "shm": "shared memory", "each": "a client each"}

// Label is the way as tables and charts have it.
func (w peerWay) Label() string {
	if w.Name == "bare" {
		return "bare socket"
	}
	if !strings.HasPrefix(w.Name, "nearcall-") {
		return w.Name
	}
	words := strings.Split(w.Name, "-")
	for i, word := range words {
		if label := peerWords[word]; label != "" {
			words[i] = label
		}
	}
	return strings.Join(words, ", ")
}

// plain keeps a text from being read as more than one field or line of shown.txt.
var plain = strings.NewReplacer("|", "/", "\n", " ")

// Told is language and connections, which stand under the name, where a phone shows them
// too.
func (w peerWay) Told() string {
	return plain.Replace(strings.Trim(w.Language+"; "+w.Connections, "; "))
}

// Elsewhere is the language of a way that is not called from Go.
func (w peerWay) Elsewhere() string { return plain.Replace(either(w.Language == "Go", "", w.Language)) }

// peerLeftOut is what a row is left out as where it is one of a peer's: its group and its
// way; "" for other rows.
func peerLeftOut(row string) string {
	parts := peerName.FindStringSubmatch(row)
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("%s%s-%s, %s", peersPrefix, parts[2], parts[3], parts[1])
}
