package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/benchmarks/result"
)

const (
	replacements       = 20
	replacementsAside  = 100 * time.Millisecond // between two of them
	replacementClients = 8
	// Nobody waits longer for an answer: one that comes later is lost.
	replacementPatience = 15 * time.Second
)

// measureReplaced stops the server behind the front by SIGTERM and starts it again, so many
// times, while clients ask without a pause on connections that they keep as long as the server
// lets them. A request is sent once: one that is not answered is lost.
func (s *scene) measureReplaced(ctx context.Context) ([]result.Measure, error) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	clients := make([]replacedClient, replacementClients)
	var asking sync.WaitGroup
	for i := range clients {
		clients[i].address = s.web.hostPort(frontServer)
		asking.Go(func() { clients[i].ask(ctx) })
	}
	err := s.replaceWeb(ctx)
	over()
	asking.Wait()
	answered, lost := 0, 0
	for _, c := range clients {
		answered += c.answered
		if c.failed != nil {
			lost++
			err = errors.Join(err, c.failed)
		}
	}
	if err != nil && lost == 0 {
		return nil, err
	}
	if lost > 0 {
		fmt.Fprintln(os.Stderr, "benchmarks: while servers were replaced:", err)
	}
	return []result.Measure{
		{Name: "replaced_servers", Value: replacements, Unit: "times"},
		{Name: "replaced_requests", Value: float64(answered), Unit: "requests"},
		{Name: "replaced_requests_lost", Value: float64(lost), Unit: "requests", Goal: result.AtMost(0).Judged(float64(lost))},
	}, nil
}

// replaceWeb replaces the server. While there is none, connections wait in the front.
func (s *scene) replaceWeb(ctx context.Context) error {
	for range replacements {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(replacementsAside):
		}
		s.servers[webServer].Stop()
		if err := s.startWeb(webServer); err != nil {
			return err
		}
	}
	return nil
}

// A replacedClient asks until it is told to end, or has lost a request.
type replacedClient struct {
	address    string
	connection net.Conn
	reader     *bufio.Reader
	answered   int
	failed     error
}

func (c *replacedClient) ask(ctx context.Context) {
	for ctx.Err() == nil && c.failed == nil {
		if c.failed = c.request(); c.failed == nil {
			c.answered++
		}
	}
	if c.connection != nil {
		c.connection.Close()
	}
}

func (c *replacedClient) request() (err error) {
	if c.connection == nil {
		if c.connection, err = net.Dial("tcp", c.address); err != nil {
			return err
		}
		c.reader = bufio.NewReader(c.connection)
	}
	if err := c.connection.SetDeadline(time.Now().Add(replacementPatience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.connection, webRequestOf, "/"); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	if response.Close {
		err = c.connection.Close()
		c.connection = nil
	}
	return err
}
