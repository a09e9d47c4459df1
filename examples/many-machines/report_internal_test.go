//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReportFailsIfOutcomesAreUntrue: a script that runs the example should notice it.
func TestReportFailsIfOutcomesAreUntrue(t *testing.T) {
	for name, row := range map[string]struct {
		executed string // by b
		want     error
	}{
		"true":                         {"1\n", nil},
		"executed twice":               {"1\n1\n", errUntrue},
		"not executed at all":          {"", errUntrue},
		"executed, and told otherwise": {"1\n2\n", errUntrue},
		"executed, and nobody called":  {"1\n3\n", errUntrue},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{folder: t.TempDir()}
			for file, content := range map[string]string{
				"calls":    "1 1000.0 0.002 b\n2 1000.1 0.002 UNAVAILABLE/not-executed\n",
				"b.orders": row.executed,
				"c.orders": "",
			} {
				if err := os.WriteFile(filepath.Join(s.folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Unix(1000, 0)
			if err := s.report(begun, []event{{from: begun, text: "nothing"}, {from: begun.Add(time.Second), text: "end"}}); !errors.Is(err, row.want) {
				t.Errorf("the report ends with %v, want %v", err, row.want)
			}
		})
	}
}
