package demo

import (
	"slices"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// registerNumbers registers functions of lists that may travel as blocks.
func registerNumbers(s *server.Server) {
	s.Register("scale", scale, server.Doc("Multiplies each number by a factor."), server.Params("numbers", "factor"), server.Idempotent())
	s.Register("echo_numbers", func(numbers []float64) []float64 { return numbers },
		server.Doc("Returns the numbers it is given."), server.Params("numbers"), server.Idempotent(), server.Borrow())
	s.Register("reverse", reverse, server.Doc("Returns the integers in reverse order."), server.Params("numbers"), server.Idempotent())
	s.Register("flip", flip, server.Doc("Turns each flag into its opposite."), server.Params("flags"), server.Idempotent())
	s.Register("transpose", transpose, server.Doc("Returns the columns of a matrix, which is a list of rows."), server.Params("rows"), server.Idempotent())
}

func scale(numbers []float64, factor float64) []float64 {
	for i := range numbers {
		numbers[i] *= factor
	}
	return numbers
}

func reverse(numbers []int64) []int64 {
	slices.Reverse(numbers)
	return numbers
}

func flip(flags []bool) []bool {
	for i := range flags {
		flags[i] = !flags[i]
	}
	return flags
}

func transpose(rows [][]float64) ([][]float64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	columns := make([][]float64, len(rows[0]))
	for _, row := range rows {
		if len(row) != len(columns) {
			return nil, status.Errorf(status.InvalidArgument, "a row has %d numbers, and the first has %d", len(row), len(columns))
		}
		for i, number := range row {
			columns[i] = append(columns[i], number)
		}
	}
	return columns, nil
}
