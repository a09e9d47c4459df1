// Command certificates writes the certificates that the tests of Go and the conformance
// runner use into a folder: see package authority for their names.
package main

import (
	"fmt"
	"os"

	"github.com/nearcall/nearcall/tests/programs/certificates/authority"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: certificates FOLDER")
		os.Exit(2)
	}
	if err := authority.Write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "certificates:", err)
		os.Exit(1)
	}
}
