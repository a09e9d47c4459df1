package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	answered, failed := make([]int, replacementClients), make([]error, replacementClients)
	var asking sync.WaitGroup
	for i := range replacementClients {
		asking.Go(func() {
			c := &webClient{address: s.web[frontServer], patience: replacementPatience}
			defer c.close()
			for ctx.Err() == nil && failed[i] == nil {
				if failed[i] = c.ask(); failed[i] == nil {
					answered[i]++
				}
			}
		})
	}
	err := s.replaceWeb(ctx)
	over()
	asking.Wait()
	if err != nil {
		return nil, err
	}
	all, lost := 0, 0
	for i := range failed {
		all += answered[i]
		if failed[i] != nil {
			lost++
		}
	}
	if lost > 0 {
		fmt.Fprintln(os.Stderr, "benchmarks: while servers were replaced:", errors.Join(failed...))
	}
	return []result.Measure{
		measured("replaced_servers", "times", replacements),
		measured("replaced_requests", "requests", float64(all)),
		atMost(0, "replaced_requests_lost", "requests", float64(lost)),
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

// ask asks and waits for all of the answer.
func (c *webClient) ask() error {
	response, err := c.get("/")
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
	}
	if err == nil && response.Close {
		err = c.close()
	}
	return err
}
