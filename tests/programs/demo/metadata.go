package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

// RegisterMetadata adds functions that tell what came with their calls, and that answer with
// metadata. They are for tests only.
func RegisterMetadata(s *server.Server) {
	s.Register("metadata_seen", metadataSeen, server.Idempotent())
	s.Register("metadata_answer", metadataAnswer, server.Params("bytes_count", "fails"))
	s.Register("metadata_raw", func(ctx context.Context, data []byte) []byte {
		call, _ := server.CallFromContext(ctx)
		return fmt.Appendf(nil, "%s%s", call.Metadata["tenant"], data)
	}, server.Params("data"))
}

func metadataSeen(ctx context.Context) string {
	call, _ := server.CallFromContext(ctx)
	return fmt.Sprintf("%s %q %v", call.TraceParent, call.Metadata, call.IdempotencyKey)
}

// metadataAnswer returns so many bytes, or fails, with three pairs in both cases.
func metadataAnswer(ctx context.Context, bytesCount int64, fails bool) ([]byte, error) {
	call, _ := server.CallFromContext(ctx)
	err := errors.Join(call.AddReplyMetadata("cost", "7"), call.AddReplyMetadata("cost", "8"), call.AddReplyMetadata("node", "a"))
	if fails && err == nil {
		err = status.Errorf(status.NotFound, "there is none")
	}
	return make([]byte, bytesCount), err
}
