package server_test

import "github.com/nearcall/nearcall/server"

// engineOptions are of every server of these tests. tools/test-go puts another file
// in the place of this one, to run all of them with the event loop.
func engineOptions() []server.Option { return nil }
