package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/nearcall/nearcall/benchmarks/calling"
	"github.com/nearcall/nearcall/benchmarks/protocol"
	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/tests/programs/shop"
)

// An errand is a function of the shop with what it is given, which is the same in callers/subject_shop.c,
// callers/shop.pl and callers/shop.py.
type errand struct {
	together calling.Call                                 // calls it errandBatch times, without anything between
	call     func(c *client.Client) (calling.Call, error) // calls it by a client, after an answer that was compared in full
}

// errandBatch is how many calls one sample is of, where Go calls a function itself: some take little longer
// than reading the clock does.
const errandBatch = 100

// errandOf makes one of a function, and of how a client calls it.
func errandOf[R any](itself func() (R, error), call func(c *client.Client) func() (R, error)) errand {
	var answer R // as programs have it: not passed on as a value of any type
	return errand{
		together: func() (err error) {
			for i := 0; i < errandBatch && err == nil; i++ {
				answer, err = itself()
			}
			return err
		},
		call: func(c *client.Client) (calling.Call, error) {
			by := call(c)
			expected, err := itself()
			if err == nil {
				answer, err = by()
			}
			if err == nil && !reflect.DeepEqual(answer, expected) {
				err = fmt.Errorf("answered %v instead of %v", answer, expected)
			}
			return func() (err error) {
				answer, err = by()
				return err
			}, err
		},
	}
}

// errands are all functions of the shop, by the names that rows have for them.
func errands() map[string]errand {
	background := context.Background()
	catalogue := shop.NewCatalogue()
	order, session, events, history, pixels := anOrder(), aSession(), someEvents(), aHistory(), calling.Payload(pictureBytes)
	return map[string]errand{
		"price": errandOf(func() (shop.Quote, error) { return shop.PriceOrder(order) }, func(c *client.Client) func() (shop.Quote, error) {
			price := client.Func1[shop.Order, shop.Quote](c, "price_order")
			return func() (shop.Quote, error) { return price(background, order) }
		}),
		"search": errandOf(func() ([]shop.Product, error) { return catalogue.Search(searched, found) }, func(c *client.Client) func() ([]shop.Product, error) {
			search := client.Func2[string, int64, []shop.Product](c, "search")
			return func() ([]shop.Product, error) { return search(background, searched, found) }
		}),
		"session": errandOf(func() (map[string]any, error) { return shop.Visit(session, page) }, func(c *client.Client) func() (map[string]any, error) {
			visit := client.Func2[map[string]any, string, map[string]any](c, "visit")
			return func() (map[string]any, error) { return visit(background, session, page) }
		}),
		"events": errandOf(func() (shop.Summary, error) { return shop.Summarise(events) }, func(c *client.Client) func() (shop.Summary, error) {
			summarise := client.Func1[[]shop.Event, shop.Summary](c, "summarise")
			return func() (shop.Summary, error) { return summarise(background, events) }
		}),
		"thumbnail": errandOf(func() ([]byte, error) { return shop.Thumbnail(pixels, small) }, func(c *client.Client) func() ([]byte, error) {
			thumbnail := client.Func2[[]byte, shop.ThumbnailOptions, []byte](c, "thumbnail")
			return func() ([]byte, error) { return thumbnail(background, pixels, small) }
		}),
		"forecast": errandOf(func() (shop.Outlook, error) { return shop.Forecast(history, ahead) }, func(c *client.Client) func() (shop.Outlook, error) {
			forecast := client.Func2[[]float64, int64, shop.Outlook](c, "forecast")
			return func() (shop.Outlook, error) { return forecast(background, history, ahead) }
		}),
	}
}

const (
	orderLines   = 8
	searched     = "Blue Oak"
	found        = 20
	page         = "/lamps/17"
	eventsCount  = 20
	pictureBytes = 30 << 10
	historyDays  = 730
	ahead        = 28
)

var small = shop.ThumbnailOptions{Width: 128, NewWidth: 32, NewHeight: 20}

func anOrder() shop.Order {
	order := shop.Order{Customer: "c-1042", Country: "DE", Coupon: &shop.Coupon{Code: "WINTER10", Percent: 10}}
	for i := range int64(orderLines) {
		order.Lines = append(order.Lines, shop.OrderLine{SKU: fmt.Sprint("sku-", 1000+i), Quantity: 1 + 2*i, UnitCents: 199 + 100*i, WeightKg: 0.25 * float64(1+i)})
	}
	return order
}

func aSession() map[string]any {
	return map[string]any{
		"user": "u-1042", "visits": int64(41), "basket": []any{"sku-1000", "sku-1004"}, "pages": []any{"/", "/lamps"},
		"preferences": map[string]any{"currency": "EUR", "newsletter": true}, "theme": "dark", "score": 0.75, "campaign": nil,
	}
}

func someEvents() (events []shop.Event) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for i := range eventsCount {
		events = append(events, shop.Event{
			Kind: []string{"view", "view", "search", "view", "add"}[i%5], At: begin.Add(time.Duration(i) * 1500 * time.Millisecond),
			Properties: map[string]string{"page": fmt.Sprint("/p/", i%4), "campaign": "winter", "browser": "firefox"},
		})
	}
	return events
}

func aHistory() (history []float64) {
	for i := range historyDays {
		history = append(history, 100.25+float64(i*37%50))
	}
	return history
}

// serveShop lets a function of the shop be measured: by a client, or without an address itself.
func serveShop(name, address string) error {
	one, known := errands()[name]
	if !known {
		return fmt.Errorf("app-%s; see gocaller/shop.go", name)
	}
	if address == "" {
		return serveTogether(one.together, errandBatch)
	}
	c, err := client.New(address)
	if err != nil {
		return err
	}
	defer c.Close()
	call, err := one.call(c)
	if err == nil {
		err = echoes{clients: []*client.Client{c}}.reachMemory([]calling.Call{call})
	}
	if err != nil {
		return err
	}
	caller := calling.New([]calling.Call{call})
	return protocol.Serve(func(command protocol.Command) (protocol.Report, error) {
		r, err := caller.Measure(command, 0)
		r.Transport = protocol.TransportOf(c.Transport())
		return r, err
	})
}
