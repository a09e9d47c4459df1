// Command testprogram is what the tests of package resident make resident. Its mode
// is the last part of its own name, after a dot: testprogram.pool.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nearcall/nearcall/resident"
)

func main() {
	modes := map[string]resident.Mode{".pool": resident.Pool, ".serial": resident.Serial, ".concurrent": resident.Concurrent}
	options := resident.Options{Mode: modes[filepath.Ext(os.Args[0])]}
	resident.Main(options, run)
}

func run(_ context.Context, inv *resident.Invocation) int {
	if len(inv.Args) > 1 && inv.Args[1] == "exit" {
		os.Exit(7)
	}
	text, err := json.Marshal(inv.Args)
	if err != nil {
		return 1
	}
	_, _ = fmt.Fprintf(inv.Stdout, "%s %s %o %s\n", text, inv.Dir, inv.Umask, inv.Getenv("WHO"))
	return len(inv.Args)
}
