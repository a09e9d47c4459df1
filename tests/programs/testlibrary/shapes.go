package main

import "github.com/nearcall/nearcall/server"

// A reading goes there and back.
type reading struct {
	ID    int64   `nearcall:"id"`
	Name  string  `nearcall:"name"`
	Value float64 `nearcall:"value"`
}

// registerShapes registers functions that do next to nothing, so that what is measured of
// their calls is what their signatures cost.
func registerShapes(s *server.Server) {
	s.Register("shape_integers", func(a, b int64) int64 { return a + b })
	s.Register("shape_five", func(a, b, c, d, e int) int { return a + b + c + d + e })
	s.Register("shape_narrow", func(a, b int32) int32 { return a + b })
	s.Register("shape_struct", func(r reading) reading { return r })
	s.Register("shape_list", func(list []int64) []int64 { return list })
	s.Register("shape_results", func(a, b int64) (int64, int64) { return b, a })
	s.Register("shape_error", func(a, b, c int64) error { return nil })
}
