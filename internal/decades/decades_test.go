package decades_test

import (
	"slices"
	"testing"

	"github.com/nearcall/nearcall/internal/decades"
)

func TestBounds(t *testing.T) {
	want := []int64{0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 79, 100}
	if got := decades.Bounds(99); !slices.Equal(got, want) {
		t.Errorf("up to 99 they are %v, want %v", got, want)
	}
	if got := decades.Bounds(0); !slices.Equal(got, []int64{0, 1}) {
		t.Errorf("up to 0 they are %v", got)
	}
}
