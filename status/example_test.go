package status_test

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/nearcall/nearcall/status"
)

// find is a function as a server registers it: it chooses the code that its callers see.
func find(id int64) (string, error) {
	if id < 0 {
		return "", status.Errorf(status.InvalidArgument, "id %d is negative", id)
	}
	failure := status.Errorf(status.NotFound, "no user %d: %w", id, fs.ErrNotExist)
	failure.Details = []status.Detail{{Type: "shop.user", Value: id}}
	return "", failure
}

func ExampleErrorf() {
	_, err := find(7)
	fmt.Println(err)
	fmt.Println(errors.Is(err, status.NotFound), errors.Is(err, fs.ErrNotExist))
	// Output:
	// nearcall: NOT_FOUND: no user 7: file does not exist
	// true true
}

func ExampleError() {
	_, err := find(7)
	var failure *status.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Code, failure.Outcome, failure.Details[0].Type, failure.Details[0].Value)
	}
	// Output: NOT_FOUND none shop.user 7
}
