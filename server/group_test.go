package server_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/intercept"
	"github.com/nearcall/nearcall/server"
)

// An order keeps which interceptors ran.
type order struct {
	mu    sync.Mutex
	names []string
}

func (o *order) as(name string) intercept.Interceptor {
	return func(ctx context.Context, _ intercept.Call, next intercept.Next) error {
		o.mu.Lock()
		o.names = append(o.names, name)
		o.mu.Unlock()
		return next(ctx)
	}
}

func (o *order) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.names
	o.names = nil
	return taken
}

func TestGroups(t *testing.T) {
	var ran order
	s := newServer(t, server.WithInterceptor(ran.as("server")))
	outer := s.Group("shop.", server.Intercept(ran.as("shop")), server.Doc("of the shop"))
	inner := outer.Group("orders.", server.Intercept(ran.as("orders")))
	for _, failed := range []error{
		s.Register("one", func() int64 { return 1 }),
		outer.Register("one", func() int64 { return 2 }),
		inner.Register("one", func() int64 { return 3 }, server.Intercept(ran.as("function")), server.Doc("its own")),
		inner.RegisterService("lines.", &lines{}),
	} {
		if failed != nil {
			t.Fatal(failed)
		}
	}
	path := start(t, s)
	c := connect(t, path)
	describer, err := client.New("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer describer.Close()
	for _, row := range []struct {
		name string
		want int64
		ran  []string
		doc  string
	}{
		{"one", 1, []string{"server"}, ""},
		{"shop.one", 2, []string{"server", "shop"}, "of the shop"},
		{"shop.orders.one", 3, []string{"server", "shop", "orders", "function"}, "its own"},
		{"shop.orders.lines.count_all", 4, []string{"server", "shop", "orders"}, "of the shop"},
	} {
		if value, failure := c.call(row.name); value != row.want {
			t.Errorf("%s = %v, %v; want %d", row.name, value, failure, row.want)
		}
		if got := ran.take(); !reflect.DeepEqual(got, row.ran) {
			t.Errorf("around %s ran %v, want %v", row.name, got, row.ran)
		}
		if got, err := describer.Describe(context.Background(), row.name); err != nil || got.Doc != row.doc {
			t.Errorf("%s is described as %q, want %q (%v)", row.name, got.Doc, row.doc, err)
		}
	}
}

type lines struct{}

func (*lines) CountAll() int64         { return 4 }
func (*lines) ParseURL(s string) int64 { return int64(len(s)) }
func (*lines) Move(from, to string) string {
	return fmt.Sprint(from, "-", to)
}

// Described says the names of its parameters.
type described struct{ lines }

func (*described) DescribeFunctions() map[string][]server.FunctionOption {
	return map[string][]server.FunctionOption{"Move": {server.Params("from", "to"), server.Doc("Moves.")}}
}

func TestServices(t *testing.T) {
	for name, row := range map[string]struct {
		service any
		params  []string
	}{
		"plain":     {&lines{}, []string{"arg1", "arg2"}},
		"described": {&described{}, []string{"from", "to"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			if err := s.RegisterService("lines.", row.service); err != nil {
				t.Fatal(err)
			}
			path := start(t, s)
			if value, failure := connect(t, path).call("lines.parse_url", "abc"); value != int64(3) {
				t.Errorf("parse_url = %v, %v", value, failure)
			}
			c, err := client.New("unix:" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			move, err := c.Describe(context.Background(), "lines.move")
			if err != nil {
				t.Fatal(err)
			}
			if got := []string{move.Params[0].Name, move.Params[1].Name}; !reflect.DeepEqual(got, row.params) {
				t.Errorf("the parameters are %v, want %v", got, row.params)
			}
			if _, err := c.Describe(context.Background(), "lines.describe_functions"); err == nil {
				t.Error("describe_functions is served")
			}
		})
	}
}

func TestServicesWithoutMethods(t *testing.T) {
	s := newServer(t)
	for _, service := range []any{nil, 7, lines{}} {
		if err := s.RegisterService("x.", service); err == nil {
			t.Errorf("%T is a service", service)
		}
	}
}
