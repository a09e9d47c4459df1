package wire_test

import (
	"bytes"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
)

// What concerns the two ends of one connection is not passed on.
func TestAppendEndToEnd(t *testing.T) {
	endToEnd := wire.AppendMetadata(nil, "a", "1")
	endToEnd = wire.AppendExtension(endToEnd, wire.ExtensionTraceParent, "trace")
	endToEnd = wire.AppendExtension(endToEnd, wire.ExtensionIdempotencyKey, "key")
	endToEnd = wire.AppendMetadata(endToEnd, "a", "2")
	all := wire.AppendExtension(nil, wire.ExtensionFunctionName, "f")
	all = append(all, endToEnd...)
	for _, other := range []wire.ExtensionType{wire.ExtensionStored, wire.ExtensionSoftware, 19, 77} {
		all = wire.AppendExtension(all, other, "other")
	}
	if got := wire.AppendEndToEnd([]byte("before"), all); !bytes.Equal(got, append([]byte("before"), endToEnd...)) {
		t.Errorf("% X, want % X", got, endToEnd)
	}
	if got := wire.AppendEndToEnd(nil, nil); len(got) > 0 {
		t.Errorf("% X of nothing", got)
	}
}
