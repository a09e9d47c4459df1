// Command manual writes the manual pages of the command nearcall.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/cmd/nearcall/internal/command"
)

func main() {
	output := flag.String("output", "", "the directory to write to")
	flag.Parse()
	if err := write(*output); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func write(directory string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	root := command.Root()
	root.DisableAutoGenTag = true
	// The same sources give the same pages: no date of today.
	epoch := time.Unix(0, 0).UTC()
	header := &doc.GenManHeader{Section: "1", Source: "Nearcall " + client.Version, Manual: "Nearcall", Date: &epoch}
	return doc.GenManTree(root, header, directory)
}
