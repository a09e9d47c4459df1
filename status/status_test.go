package status_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/status"
)

// Error puts the name in front itself.
func TestTheNameStandsOnce(t *testing.T) {
	err := status.Errorf(status.InvalidArgument, "%w", errors.New("nearcall: address x: it has no scheme"))
	if want := "nearcall: INVALID_ARGUMENT: address x: it has no scheme"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestErrorsCanBeToldApart(t *testing.T) {
	err := fmt.Errorf("while calling: %w", status.Errorf(status.NotFound, "no user %d", 7).With(status.OutcomeExecuted))
	if !errors.Is(err, status.NotFound) || errors.Is(err, status.Internal) {
		t.Errorf("errors.Is does not tell the code of %v", err)
	}
	var failure *status.Error
	if !errors.As(err, &failure) || failure.Outcome != status.OutcomeExecuted {
		t.Errorf("errors.As = %v", failure)
	}
	if late := status.Errorf(status.DeadlineExceeded, "late"); !errors.Is(late, context.DeadlineExceeded) || errors.Is(late, context.Canceled) {
		t.Error("DEADLINE_EXCEEDED is not context.DeadlineExceeded alone")
	}
}

func TestFromError(t *testing.T) {
	for _, c := range []struct {
		err  error
		code status.Code
	}{
		{io.EOF, status.Unknown},
		{context.DeadlineExceeded, status.DeadlineExceeded},
		{fmt.Errorf("wrapped: %w", context.Canceled), status.Cancelled},
		{status.Aborted, status.Aborted},
		{fmt.Errorf("wrapped: %w", status.Errorf(status.DataLoss, "x")), status.DataLoss},
	} {
		got := status.FromError(c.err)
		if got.Code != c.code {
			t.Errorf("FromError(%v) has code %v, want %v", c.err, got.Code, c.code)
		}
		if !errors.Is(got, c.err) && !errors.Is(got.Cause, c.err) {
			t.Errorf("FromError(%v) lost its cause", c.err)
		}
	}
	if status.FromError(nil) != nil {
		t.Error("FromError(nil) is not nil")
	}
}

func TestNames(t *testing.T) {
	if code, ok := status.ParseCode("DEADLINE_EXCEEDED"); !ok || code != status.DeadlineExceeded {
		t.Errorf("ParseCode = %v, %v", code, ok)
	}
	if _, ok := status.ParseCode("NO_SUCH"); ok {
		t.Error("ParseCode knows NO_SUCH")
	}
	if text := fmt.Sprint(status.Code(200), status.Outcome(200)); text != "CODE_200 outcome 200" {
		t.Errorf("unknown numbers are %q", text)
	}
}

// TestNestedErrorsAreToldOnce: code and outcome of what was wrapped are not in the
// message, which has them around it.
func TestNestedErrorsAreToldOnce(t *testing.T) {
	inner := status.Errorf(status.NotFound, "no such row").With(status.OutcomeExecuted)
	twice := fmt.Errorf("load user %d: %w", 7, fmt.Errorf("query: %w", inner))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"wrapped":       {status.FromError(twice), "nearcall: NOT_FOUND: load user 7: query: no such row (executed)"},
		"formatted":     {status.Errorf(status.NotFound, "load user %d: %w", 7, inner), "nearcall: NOT_FOUND: load user 7: no such row"},
		"three deep":    {status.FromError(fmt.Errorf("page: %w", status.Errorf(status.NotFound, "load: %w", inner))), "nearcall: NOT_FOUND: page: load: no such row"},
		"two":           {status.FromError(fmt.Errorf("%w; %w", inner, status.Errorf(status.Aborted, "again"))), "nearcall: NOT_FOUND: no such row; again (executed)"},
		"joined":        {status.FromError(errors.Join(errors.New("one"), inner)), "nearcall: NOT_FOUND: one\nno such row (executed)"},
		"without words": {status.FromError(fmt.Errorf("load: %w", status.Errorf(status.NotFound, ""))), "nearcall: NOT_FOUND: load: NOT_FOUND"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTextOfManyErrors: a batch fails for each of its items, which a caller chooses.
func TestTextOfManyErrors(t *testing.T) {
	const count = 50_000
	items, want := make([]error, count), make([]string, count)
	for i := range items {
		want[i] = fmt.Sprintf("item %d", i)
		items[i] = status.Errorf(status.NotFound, "item %d", i)
	}
	begin := time.Now()
	if got := status.FromError(errors.Join(items...)); got.Message != strings.Join(want, "\n") || got.Code != status.NotFound {
		t.Errorf("%v with a message of %d bytes that begins with %.60q", got.Code, len(got.Message), got.Message)
	}
	hidden := &hides{status.Errorf(status.NotFound, "unseen")}
	for i := range items {
		items[i] = hidden
	}
	if got := status.FromError(errors.Join(items...)); got.Code != status.NotFound {
		t.Errorf("%v", got.Code)
	}
	if took := time.Since(begin); took > 10*time.Second { // minutes, if each looked at the whole
		t.Errorf("took %v", took)
	}
}

// hides wraps an error that its text does not show.
type hides struct{ inner error }

func (*hides) Error() string   { return "something else" }
func (h *hides) Unwrap() error { return h.inner }
