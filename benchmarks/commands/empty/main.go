// Command empty prints its argument: what is measured is starting it, or not. Under a
// name that ends with "pool" it waits in a pool, else it is concurrent.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/nearcall/nearcall/resident"
)

func main() {
	mode := resident.Concurrent
	if strings.HasSuffix(os.Args[0], "pool") {
		mode = resident.Pool
	}
	resident.Main(resident.Options{Mode: mode}, func(_ context.Context, run *resident.Invocation) int {
		fmt.Fprintln(run.Stdout, run.Args[1])
		return 0
	})
}
