package command_test

import (
	"testing"

	"github.com/nearcall/nearcall/server"
)

func TestSchemaDiff(t *testing.T) {
	address := serveDemo(t)
	path := schemaFile(t, address)
	nearcall(t, "schema", "diff", path, address).expectOut(t, "")

	smaller := serve(t, func(s *server.Server) { must(t, s.Register("one", func() int64 { return 1 })) })
	nearcall(t, "schema", "diff", smaller, path).expect(t, 0, "compatible    function ack was added")
	nearcall(t, "schema", "diff", path, smaller).expect(t, 1, "INCOMPATIBLE  function ack was removed or renamed")
	nearcall(t, "schema", "diff", path, "no_such_file").expect(t, 1, "no such file")
	nearcall(t, "schema", "diff", path, "unix:/no/such/socket").expect(t, 78)
}
