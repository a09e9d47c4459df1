// yq is the program of that name with the line that lets it stay ready.
package main

import (
	command "github.com/mikefarah/yq/v4/cmd"
	"github.com/spf13/cobra"

	"github.com/nearcall/nearcall/resident"
	"github.com/nearcall/nearcall/resident/residentcobra"
)

func main() {
	residentcobra.Main(resident.Options{}, func(*resident.Invocation) *cobra.Command { return command.New() })
}
