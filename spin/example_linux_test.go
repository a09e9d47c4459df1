package spin_test

import (
	"fmt"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/spin"
)

// Both sides take a mode. An address may have one, too.
func Example() {
	_, err := server.New(server.WithSpin(spin.Dedicated))
	fmt.Println(err)
	_, err = client.New("unix:/run/demo/nearcall.sock", client.WithSpin(spin.Off))
	fmt.Println(err)
	_, err = client.New(fmt.Sprintf("unix:/run/demo/nearcall.sock?spin=%v", spin.Off))
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// <nil>
}
