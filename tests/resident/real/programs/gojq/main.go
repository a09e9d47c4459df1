// gojq is the program of that name with the line that lets it stay ready.
package main

import (
	"context"

	"github.com/itchyny/gojq/cli"

	"github.com/nearcall/nearcall/resident"
)

func main() {
	resident.Main(resident.Options{}, func(context.Context, *resident.Invocation) int { return cli.Run() })
}
