package sharedmemory_test

import (
	"testing"

	"github.com/nearcall/nearcall/internal/transport/sharedmemory"
)

func TestSpinLimit(t *testing.T) {
	t.Log(sharedmemory.SpinLimit(), sharedmemory.SpinLimit())
}
