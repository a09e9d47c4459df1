// Command client is the client in Go:
//
//	client unix:/tmp/hello/nearcall.sock
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/status"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: client ADDRESS")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
	c, err := client.New(address)
	if err != nil {
		return err
	}
	defer c.Close()

	greeting, err := client.Call[string](ctx, c, "greet", "World")
	if err != nil {
		return err
	}
	fmt.Println("greet:", greeting)

	results, err := client.Call[[]int64](ctx, c, "divide", 17, 5)
	if err != nil {
		return err
	}
	fmt.Printf("divide: %d, remainder %d\n", results[0], results[1])

	count, err := client.Call[int64](ctx, c, "visit", "/")
	if err != nil {
		return err
	}
	fmt.Println("visit:", count)

	_, err = client.Call[[]int64](ctx, c, "divide", 1, 0)
	var failure *status.Error
	if !errors.As(err, &failure) {
		return fmt.Errorf("1 was divided by 0: %w", err)
	}
	fmt.Printf("error: %s, %s, %s\n", failure.Code, failure.Outcome, failure.Message)
	return nil
}
