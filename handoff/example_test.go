//go:build unix

package handoff_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/nearcall/nearcall/handoff"
)

// A front looks at what a client asks for, and gives the connection to the process that
// serves it. Here both are the same process.
func Example() {
	directory, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(directory)
	address := "unix:" + filepath.Join(directory, "backend.sock")

	// The backend serves connections that it is given.
	listener, err := handoff.Listen(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "the backend serves", r.URL.Path)
	}))

	// The front accepts, and gives away.
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer front.Close()
	backend, err := handoff.Dial(context.Background(), address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	go func() {
		conn, err := front.Accept()
		if err != nil {
			return
		}
		request, err := handoff.PeekHTTP1(context.Background(), conn.(*net.TCPConn))
		if err != nil {
			conn.Close()
			return
		}
		fmt.Println("the front sees", request.URL.Path)
		if err := backend.SendConn(context.Background(), conn, handoff.Meta{Name: "shop"}); err != nil {
			conn.Close() // it is still the front's
		}
	}()

	response, err := http.Get("http://" + front.Addr().String() + "/orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	fmt.Print(string(text), err)
	// Output:
	// the front sees /orders
	// the backend serves /orders
	// <nil>
}
