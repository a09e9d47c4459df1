package main

import (
	"fmt"
	"slices"
	"strings"
)

// modulePath is the module whose folders the arrows are about. Nested modules
// have it as a prefix.
const modulePath = "github.com/nearcall/nearcall"

const (
	messagePack = "github.com/tinylib/msgp"
	systemCalls = "golang.org/x/sys"
	anything    = "*"
)

// layer says what the packages of a folder, and of all folders below it, may
// import besides the standard library and each other. Its parts are folders of
// this repository or paths of others' modules; each allows what is below it too,
// but for folders that have arrows of their own.
type layer struct {
	folder string
	may    []string
}

// arrows are those of ARCHITECTURE.md. The longest folder that fits a package
// counts; a package that none fits is an error, so that a new folder gets its
// place here before it gets its imports.
var arrows = []layer{
	// What everybody may know.
	{"status", nil},
	{"intercept", nil},
	{"forward", []string{"status", "intercept"}},
	{"observe", []string{"status", "intercept"}},
	{"spin", nil},
	{"internal/wire", nil},
	{"internal/address", []string{"spin"}},
	{"internal/endpoints", nil},
	{"internal/monotonic", []string{systemCalls}},
	{"internal/peercred", []string{systemCalls}},
	{"internal/rights", []string{systemCalls}},
	{"internal/cputime", []string{systemCalls}},
	{"internal/machine", nil},
	{"internal/decades", nil},
	{"internal/windows", nil},
	{"internal/hostname", nil},
	{"internal/direct", nil},
	{"internal/nexts", nil},

	// From bytes to values: single values, then types and descriptions, then
	// the user's own values by those.
	{"internal/msgpack", []string{"internal/wire", messagePack}},
	{"internal/schema", []string{"status", "internal/wire", "internal/msgpack", messagePack}},
	{"internal/descriptors", []string{"internal/wire", "internal/rights", systemCalls}},
	{"internal/memory", nil},
	{"internal/codec", []string{"status", "internal/wire", "internal/descriptors", "internal/memory", "internal/msgpack", "internal/schema", messagePack}},

	// How bytes travel: below whoever serves or calls, and blind to both.
	{"internal/transport", []string{"status", "spin", "internal/wire", "internal/address", "internal/monotonic", "internal/peercred", "internal/rights", systemCalls}},
	// TLS costs those who use it, and nobody else.
	{"internal/transport/tls", []string{"internal/wire", "internal/address", "internal/transport", systemCalls}},
	{"internal/transport/eventloop", []string{"internal/address", "internal/rights", "internal/transport", anything}},

	// From a decoded request to the user's function.
	{"internal/invoke", []string{"internal/memory"}},
	{"internal/dispatch", []string{"status", "internal/wire", "internal/monotonic", "internal/msgpack", "internal/schema",
		"internal/codec", "internal/descriptors", "internal/invoke", "internal/memory", "internal/peercred", messagePack}},

	// What users import. Server and client do not know each other.
	{"server", []string{"status", "intercept", "observe", "spin", "forward", "internal/direct", "internal/nexts", "internal/wire", "internal/address", "internal/monotonic", "internal/peercred", "internal/msgpack",
		"internal/schema", "internal/codec", "internal/descriptors", "internal/transport", "internal/dispatch"}},
	{"server/eventloop", []string{"server", "internal/transport/eventloop"}},
	{"server/servertls", []string{"server", "status", "internal/transport", "internal/transport/tls"}},
	{"client", []string{"status", "intercept", "observe", "spin", "forward", "internal/endpoints", "internal/nexts", "internal/wire", "internal/address", "internal/monotonic", "internal/peercred", "internal/msgpack",
		"internal/schema", "internal/codec", "internal/descriptors", "internal/transport"}},
	{"client/clienttls", []string{"client", "status", "internal/transport", "internal/transport/tls"}},
	{"handoff", []string{"status", "internal/wire", "internal/address", "internal/hostname", "internal/peercred", "internal/rights", "internal/transport", systemCalls}},
	{"resident", []string{"status", "internal/wire", "internal/address", "internal/peercred", "internal/rights", "handoff", systemCalls}},
	{"resident/residentcobra", []string{"resident", anything}},
	{"nearcalltest", []string{"status", "server", "client", "internal/wire", "internal/codec", "internal/dispatch"}},
	{"embed", []string{"server", "internal/direct", "internal/address", "internal/transport", systemCalls}},

	// Functions and programs that the command, the tests and the benchmarks share.
	{"tests/programs/demo", []string{"status", "server"}},
	{"tests/programs/testserver", []string{"status", "server", "server/servertls", "tests/programs/demo", "internal/wire"}},
	{"server/eventloop/eventserver", []string{"server", "server/eventloop", "tests/programs/testserver"}},
	{"tests/programs/shop", []string{"status", "server"}},
	{"tests/programs/shopserver", []string{"server", "tests/programs/shop"}},
	{"tests/programs/shoplibrary", []string{"server", "embed", "tests/programs/shop"}},
	{"tests/programs/testgiver", []string{"handoff"}},
	{"tests/programs/testlibrary", []string{"server", "embed", "tests/programs/demo"}},

	// What stands on top. Others' modules are their own affair: they are nested.
	{"gateway", []string{"status", "intercept", "observe", "forward", "server", "server/servertls", "client", "client/clienttls", "internal/decades", "internal/endpoints", "internal/transport",
		"internal/wire", "internal/monotonic", anything}},
	{"cmd", []string{"status", "spin", "server", "server/servertls", "client", "client/clienttls", "gateway", "handoff", "resident", "internal/address", "internal/hostname", "internal/rights", "internal/transport", "internal/schema",
		"internal/codec", "tests/programs/demo", "internal/cputime", "internal/machine",
		"internal/decades", "internal/windows", "internal/peercred", anything}},
	{"conformance", []string{"status", "server", "server/servertls", "client", "client/clienttls", "internal/wire", "internal/rights", "internal/schema", "internal/codec", anything}},
	{"tests", []string{"status", "observe", "spin", "forward", "server", "server/servertls", "client", "client/clienttls", "handoff", "resident", "resident/residentcobra", "internal/wire", "internal/rights",
		"internal/transport/sharedmemory/memorytest", anything}},
	{"benchmarks", []string{"status", "spin", "server", "server/servertls", "client", "client/clienttls", "handoff", "resident", "resident/residentcobra", "internal/wire", "tests/programs/certificates", "tests/programs/demo",
		"tests/programs/shop", "internal/cputime", "internal/machine", "internal/decades", "internal/windows", anything}},
	{"examples", []string{"status", "intercept", "observe", "spin", "forward", "server", "server/servertls", "client", "client/clienttls", "handoff", "resident", "resident/residentcobra", "embed", "tests/machines/network", "tests/programs/certificates", anything}},
	{"tools/scaling", []string{"internal/endpoints", "internal/wire"}},
	{"tools", []string{anything}},
}

// foundations are what every package may know. With each other and with modules of
// others, they are all that a package of internal may import: the rest stands above.
var foundations = []string{"status", "intercept", "spin"}

// upward returns a sentence for each folder that internal may import although it
// stands above it.
func upward(arrows []layer) (problems []string) {
	for _, l := range arrows {
		for _, permitted := range l.may {
			if within(l.folder, "internal") && isAbove(permitted) {
				problems = append(problems, fmt.Sprintf("tools/checklayers/arrows.go: %s may import %s, which stands above internal; programs and their functions belong to tests/programs",
					l.folder, permitted))
			}
		}
	}
	return problems
}

// isAbove tells whether what a layer may import stands above internal.
func isAbove(permitted string) bool {
	ofOthers := permitted == anything || strings.Contains(permitted, ".")
	return !ofOthers && !within(permitted, "internal") && !slices.Contains(foundations, permitted)
}

// coreRequires are the modules that the root's go.mod may name: everybody who
// imports server or client pays for them.
var coreRequires = []string{messagePack, systemCalls}

// layerOf returns the arrows of a package, given its folder.
func layerOf(folder string) (found layer, ok bool) {
	for _, l := range arrows {
		if within(folder, l.folder) && len(l.folder) > len(found.folder) {
			found, ok = l, true
		}
	}
	return found, ok
}

// allows tells whether a package of this layer may import path.
func (l layer) allows(path string) bool {
	folder, ours := folderOf(path)
	if ours && covers(l.folder, folder) {
		return true
	}
	for _, permitted := range l.may {
		if ours && covers(permitted, folder) {
			return true
		}
		if !ours && (permitted == anything || within(path, permitted)) {
			return true
		}
	}
	return !ours && isStandard(path)
}

// covers tells whether what names permitted means folder: not where a folder between has
// arrows of its own, which are to be named themselves.
func covers(permitted, folder string) bool {
	own, _ := layerOf(folder)
	return within(folder, permitted) && len(own.folder) <= len(permitted)
}

// folderOf returns the folder of one of our packages.
func folderOf(path string) (folder string, ours bool) {
	if path == modulePath {
		return "", true
	}
	return strings.CutPrefix(path, modulePath+"/")
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// isStandard goes by the rule of the go command: other modules have a dot in
// their first element.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
